"""Store sales and their dimensions in TPC-DS's schema, made up here: TPC-DS-like, not dsdgen's data.

Surrogate keys refer to rows that exist; a share of a sale's foreign keys and measures is NULL, as in TPC-DS.
Every column that one of the packaged queries tests takes few values, most of which some query asks for, so
that the queries find something among two thousand sales. For the benchmark's own data use dsdgen.
"""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from viewlet.workloads import draws, schema
from viewlet.workloads.ddl import arrow_schemas, conform
from viewlet.workloads.draws import Index

Columns: TypeAlias = dict[str, Any]

# The first day of the calendar that d_week_seq counts from is a Sunday.
_WEEKS_FROM = date(1899, 12, 31)
_DAY_NAMES = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_CITIES = ("Fairview", "Midway", "Oak Grove")
_COUNTIES = ("Williamson County", "Orange County", "Ziebach County")
_POTENTIAL = (">10000", "Unknown", "0-500")


def tables(sales: int = 2_000, seed: int = 0) -> dict[str, pa.Table]:
    """Dimensions first, ``store_sales`` last.

    >>> sales = tables(500)["store_sales"]
    >>> sales.num_rows, sales["ss_customer_sk"].null_count > 0
    (500, True)
    """
    days = calendar()
    sizes = {"item": 24, "customer": 30, "address": 12, "cdemo": 6, "hdemo": 24, "promo": 4, "store": 4}
    columns = {
        "date_dim": _date_dim(days),
        "store": _store(np.arange(sizes["store"])),
        "item": _item(np.arange(sizes["item"])),
        "promotion": _promotion(np.arange(sizes["promo"])),
        "customer_demographics": _customer_demographics(np.arange(sizes["cdemo"])),
        "household_demographics": _household_demographics(np.arange(sizes["hdemo"])),
        "customer_address": _customer_address(np.arange(sizes["address"])),
        "customer": _customer(np.arange(sizes["customer"]), sizes, seed),
        "store_sales": _store_sales(sales, len(days), sizes, seed),
    }
    schemas = arrow_schemas(schema("tpcds"))
    return {name: conform(values, schemas[name], seed) for name, values in columns.items()}


def calendar() -> list[date]:
    """The days on which something is sold.

    The first three days of months of 1998 to 2000, whatever day of the week they are; and in 2001 and 2002
    the days of two weeks that are 52 weeks apart, for the query that compares a year with the next.
    """
    early = [date(year, month, day) for year in (1998, 1999, 2000) for month in (1, 11) for day in (1, 2, 3)]
    first = date(2001, 11, 4)
    paired = [first + timedelta(weeks=week, days=day) for week in (0, 52) for day in range(7)]
    return early + paired


def _date_dim(days: list[date]) -> Columns:
    weekday = [day.isoweekday() % 7 for day in days]
    return {
        "d_date_sk": np.arange(1, len(days) + 1),
        "d_date": days,
        "d_year": [day.year for day in days],
        "d_moy": [day.month for day in days],
        "d_dom": [day.day for day in days],
        "d_dow": weekday,
        "d_day_name": [_DAY_NAMES[number] for number in weekday],
        "d_week_seq": [(day - _WEEKS_FROM).days // 7 + 1 for day in days],
        "d_month_seq": [(day.year - 1900) * 12 + day.month - 1 for day in days],
    }


def _store(key: Index) -> Columns:
    return {
        "s_store_sk": key + 1,
        "s_store_id": [f"STORE{k}" for k in key],
        "s_store_name": [("able", "ation", "ese")[k % 3] for k in key],
        "s_number_employees": 190 + 30 * (key % 4),
        "s_city": [_CITIES[k % 3] for k in key],
        "s_county": [_COUNTIES[k // 2 % 3] for k in key],
        "s_state": [("TN", "TN", "SD")[k % 3] for k in key],
        "s_zip": [f"{31000 + k % 2}" for k in key],
        "s_gmt_offset": np.where(key % 4 == 3, -6, -5),
    }


def _item(key: Index) -> Columns:
    return {
        "i_item_sk": key + 1,
        "i_item_id": [f"ITEM{k // 2}" for k in key],
        "i_item_desc": [f"made of {k % 5}" for k in key],
        "i_current_price": (key + 1) / 4,
        "i_wholesale_cost": (key + 1) / 8,
        "i_brand_id": 1000 + key % 6,
        "i_brand": [f"brand {k % 6}" for k in key],
        "i_category_id": 1 + key % 3,
        "i_category": [("Books", "Music", "Shoes")[k % 3] for k in key],
        "i_manufact_id": np.array([128, 129, 7])[key % 3],
        "i_manufact": [("ought", "able", "pri")[k % 3] for k in key],
        "i_manager_id": np.array([1, 8, 28])[key // 3 % 3],
    }


def _promotion(key: Index) -> Columns:
    return {
        "p_promo_sk": key + 1,
        "p_channel_email": [("N", "Y")[k % 2] for k in key],
        "p_channel_event": [("N", "Y")[k // 2 % 2] for k in key],
    }


def _customer_demographics(key: Index) -> Columns:
    return {
        "cd_demo_sk": key + 1,
        "cd_gender": [("M", "F")[k % 2] for k in key],
        "cd_marital_status": [("S", "S", "W")[k % 3] for k in key],
        "cd_education_status": [("College", "College", "Primary")[k // 2 % 3] for k in key],
    }


def _household_demographics(key: Index) -> Columns:
    return {
        "hd_demo_sk": key + 1,
        "hd_buy_potential": [_POTENTIAL[k % 3] for k in key],
        "hd_dep_count": np.array([4, 6, 5, 0])[key % 4],
        "hd_vehicle_count": np.array([3, 2, 1])[key // 4 % 3],
    }


def _customer_address(key: Index) -> Columns:
    return {
        "ca_address_sk": key + 1,
        "ca_city": [_CITIES[k % 3] for k in key],
        "ca_zip": [f"{31000 + k % 4}" for k in key],
    }


def _customer(key: Index, sizes: dict[str, int], seed: int) -> Columns:
    names = draws.choice(seed, "c_last_name", key, ("Smith", "Jones", "Brown", "Green"))
    return {
        "c_customer_sk": key + 1,
        "c_current_addr_sk": 1 + draws.integers(seed, "c_current_addr_sk", key, 0, sizes["address"]),
        "c_first_name": draws.choice(seed, "c_first_name", key, ("Ann", "Bob", "Eve")),
        "c_last_name": _null(names, "c_last_name", key, 0.05, seed),
        "c_salutation": draws.choice(seed, "c_salutation", key, ("Dr.", "Ms.", "Mr.")),
        "c_preferred_cust_flag": draws.choice(seed, "c_preferred_cust_flag", key, ("Y", "N")),
    }


def _store_sales(sales: int, days: int, sizes: dict[str, int], seed: int) -> Columns:
    """A ticket is one visit: its lines share the day, the store, the customer and his demographics."""
    line = np.arange(sales)
    # Every second ticket is large: q34 looks for 15 to 20 lines.
    tickets = np.arange(sales)
    lengths = np.where(tickets % 2 == 0, draws.integers(seed, "long", tickets, 15, 21), 1 + tickets % 5)
    ticket = np.repeat(tickets, lengths)[:sales]

    def of_ticket(name: str, values: int) -> NDArray[np.int64]:
        return 1 + draws.integers(seed, name, ticket, 0, values)

    keys = {
        "ss_sold_date_sk": of_ticket("ss_sold_date_sk", days),
        "ss_sold_time_sk": of_ticket("ss_sold_time_sk", 86_400),
        "ss_customer_sk": of_ticket("ss_customer_sk", sizes["customer"]),
        "ss_cdemo_sk": of_ticket("ss_cdemo_sk", sizes["cdemo"]),
        "ss_hdemo_sk": of_ticket("ss_hdemo_sk", sizes["hdemo"]),
        "ss_addr_sk": of_ticket("ss_addr_sk", sizes["address"]),
        "ss_store_sk": of_ticket("ss_store_sk", sizes["store"]),
        "ss_promo_sk": 1 + draws.integers(seed, "ss_promo_sk", line, 0, sizes["promo"]),
    }
    nulls = {
        name: _null(values, name, line, 0.02, seed)
        for name, values in {**keys, **_measures(line, seed)}.items()
    }
    # Within a ticket no item repeats: 5 and the number of items have no common factor.
    place = line - np.searchsorted(ticket, ticket)
    item = 1 + (draws.integers(seed, "ss_item_sk", ticket, 0, sizes["item"]) + 5 * place) % sizes["item"]
    return {"ss_item_sk": item, "ss_ticket_number": ticket + 1, **nulls}


def _measures(line: Index, seed: int) -> Columns:
    """Prices in quarters, never zero (a query divides by their sums); one sale in four is cheap, for q65."""
    quantity = draws.integers(seed, "ss_quantity", line, 1, 100)
    cheap = draws.chance(seed, "cheap", line, 0.25)
    price = np.where(cheap, 0.25, draws.integers(seed, "ss_sales_price", line, 40, 800) / 4)
    return {
        "ss_quantity": quantity,
        "ss_list_price": price + 1,
        "ss_sales_price": price,
        "ss_ext_sales_price": price * quantity,
        "ss_ext_list_price": (price + 1) * quantity,
        "ss_ext_tax": np.round(price * quantity * 0.08, 2),
        "ss_coupon_amt": draws.integers(seed, "ss_coupon_amt", line, 0, 40) / 4,
        "ss_net_profit": draws.integers(seed, "ss_net_profit", line, -400, 400) / 4,
    }


def _null(values: Any, name: str, index: Index, rate: float, seed: int) -> pa.Array:
    return pa.array(values, mask=draws.chance(seed, f"{name} is null", index, rate))
