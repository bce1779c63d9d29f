"""A database whose views drive models: the models equal those made from the rows that are left."""

from __future__ import annotations

import numpy as np

import viewlet.linalg as vl

DDL = """
CREATE TABLE sites (site BIGINT NOT NULL, level DOUBLE, PRIMARY KEY (site));
CREATE TABLE points (id BIGINT NOT NULL, site BIGINT REFERENCES sites (site), x DOUBLE, y DOUBLE,
                     PRIMARY KEY (id));
CREATE TABLE cells (id BIGINT NOT NULL, i BIGINT NOT NULL, v DOUBLE, PRIMARY KEY (id, i));
"""
DESIGN = "SELECT id, level, x, y FROM points p JOIN sites s ON p.site = s.site"
COFACTORS = """SELECT a.i AS i, b.i AS j, SUM(a.v * b.v) AS v FROM cells a JOIN cells b ON a.id = b.id
               GROUP BY a.i, b.i"""


def check_fed_models(db, batches, seed=0):
    """Rows come and go; a joined design matrix feeds a regression, a cofactor matrix a matrix program."""
    rng = np.random.default_rng(seed)
    for statement in DDL.strip().split(";\n"):
        db.execute(statement)
    db.execute(f"CREATE MATERIALIZED VIEW design AS {DESIGN}")
    db.execute(f"CREATE MATERIALIZED VIEW cofactors AS {COFACTORS}")
    model = vl.OLS()
    Z = vl.input("Z", (3, 3))
    ridge = vl.maintain({"W": (Z + vl.identity(3)).inv()}, Z=np.zeros((3, 3)))
    db.view("design").subscribe(vl.feed_regression(model, features=["level", "x"], target="y"))
    db.view("cofactors").subscribe(vl.feed_matrix(ridge, "Z", row="i", col="j", value="v"))
    levels = {site: float(site % 3) for site in range(5)}
    db.insert("sites", list(levels.items()))
    points = {}
    for batch in range(batches):
        new = {
            8 * batch + k: (int(rng.integers(5)), float(rng.integers(-9, 10)), float(rng.integers(-9, 10)))
            for k in range(8)
        }
        gone = dict(list(points.items())[:3])
        cells = [(id, *cell) for id, row in new.items() for cell in enumerate((1.0, *row[1:]))]
        old = [(id, *cell) for id, row in gone.items() for cell in enumerate((1.0, *row[1:]))]
        db.apply({"points": changes(("id", "site", "x", "y"), flat(new), flat(gone)),
                  "cells": changes(("id", "i", "v"), cells, old)})  # fmt: skip
        points = {id: row for id, row in (points | new).items() if id not in gone}
        if batch == 1:  # a change of one small row changes many rows of the design matrix
            site = next(iter(points.values()))[0]
            db.apply({"sites": changes(("site", "level"), [(site, 5.0)], [(site, levels[site])])})
            levels[site] = 5.0
        X = np.array([[levels[site], x] for site, x, _ in points.values()])
        y = np.array([y for *_, y in points.values()])
        assert model.count == len(points)
        np.testing.assert_allclose(model.coef_, np.linalg.lstsq(X, y, rcond=None)[0], rtol=1e-8, atol=1e-10)
        D = np.column_stack([np.ones(len(points)), X[:, 1], y])
        np.testing.assert_allclose(ridge["W"], np.linalg.inv(D.T @ D + np.eye(3)), rtol=1e-8, atol=1e-12)


def flat(points):
    return [(id, *row) for id, row in points.items()]


def changes(names, inserted, deleted):
    """Rows with weights, deletions first."""
    weighted = [(row, -1) for row in deleted] + [(row, 1) for row in inserted]
    return [dict(zip((*names, "_weight"), (*row, weight), strict=True)) for row, weight in weighted]
