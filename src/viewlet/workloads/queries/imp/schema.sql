CREATE TABLE crimes (
    id BIGINT NOT NULL,
    district BIGINT,
    community_area BIGINT,
    ward BIGINT,
    beat BIGINT,
    year BIGINT
);
CREATE TABLE r500 (a BIGINT, b BIGINT, c BIGINT, d BIGINT);
CREATE TABLE t1gbjoin (a BIGINT, b BIGINT, c BIGINT, d BIGINT);
CREATE TABLE tjoinhelp (ttid BIGINT);
CREATE TABLE sales (brand VARCHAR, price BIGINT, num_sold BIGINT);
