/* One function per operation number; arguments in, result and error word out. A vl_i128 is two words,
 * high first. */
#include "driver.h"
#include "calendar.h"
#include "number.h"

static vl_i128 take_wide(input *in) {
    uint64_t high = (uint64_t)take(in), low = (uint64_t)take(in);
    return (vl_i128)((vl_u128)high << 64 | low);
}
static void give_wide(vl_i128 x) {
    give((int64_t)((vl_u128)x >> 64));
    give((int64_t)x);
}

static vl_i128 wide(int64_t op, input *in, vl_errors *e) {
    vl_i128 x = take_wide(in), y = take_wide(in);
    int m = (int)take(in), n = (int)take(in);
    switch (op) {
    case 0: return vl_i128_add(x, y, e);
    case 1: return vl_i128_sub(x, y, e);
    case 2: return vl_i128_mul(x, y, e);
    case 3: return vl_decimal_mul(x, y, m, e);
    case 4: return vl_decimal_div(x, y, m, e);
    case 5: return vl_decimal_mod(x, y, e);
    case 6: return vl_rescale(x, m, n, e);
    case 7: return vl_decimal_check(x, m, e);
    case 8: return vl_decimal_floor(x, m);
    case 9: return vl_decimal_ceil(x, m);
    case 10: return vl_decimal_round(x, m, n, e);
    default: require(false, "unknown operation"); return 0;
    }
}

static int64_t narrow(int64_t op, input *in, vl_errors *e) {
    int64_t x = take(in), y = take(in);
    switch (op) {
    case 20: return vl_i64_add(x, y, e);
    case 21: return vl_i64_sub(x, y, e);
    case 22: return vl_i64_mul(x, y, e);
    case 23: return vl_i64_div(x, y, e);
    case 24: return vl_i64_mod(x, y, e);
    case 25: return vl_i64_abs(x, e);
    case 26: return vl_i32_add((int32_t)x, (int32_t)y, e);
    case 27: return vl_i32_mul((int32_t)x, (int32_t)y, e);
    case 28: return vl_i32_of_i64(x, e);
    case 29: return vl_i32_abs((int32_t)x, e);
    case 30: return vl_date_year((int32_t)x);
    case 31: return vl_date_month((int32_t)x);
    case 32: return vl_date_day((int32_t)x);
    case 33: return vl_date_weekday((int32_t)x);
    case 34: return vl_date_day_of_year((int32_t)x);
    case 35: return vl_date_week((int32_t)x);
    case 36: return vl_date_quarter((int32_t)x);
    case 37: return vl_date_add_months((int32_t)x, y, e);
    case 38: return vl_date_add_days((int32_t)x, y, e);
    case 39: return vl_date_last_day((int32_t)x);
    case 40: return vl_date_trunc_year((int32_t)x);
    case 41: return vl_date_trunc_quarter((int32_t)x);
    case 42: return vl_date_trunc_month((int32_t)x);
    case 43: return vl_date_trunc_week((int32_t)x);
    case 44: return vl_timestamp_date(x, e);
    case 45: return vl_timestamp_hour(x);
    case 46: return vl_timestamp_minute(x);
    case 47: return vl_timestamp_second(x);
    case 48: return vl_timestamp_trunc(x, y);
    default: require(false, "unknown operation"); return 0;
    }
}

static double floating(int64_t op, double x) {
    switch (op) {
    case 60: return vl_f64_floor(x);
    case 61: return vl_f64_ceil(x);
    case 62: return vl_f64_round(x);
    case 63: return vl_f64_trunc(x);
    default: require(false, "unknown operation"); return 0;
    }
}

/* 80 n (x weight)* : the value after every addition, merged from two halves at the end. */
static void sums(input *in) {
    vl_f64_sum all = {0, 0, 0, 0, 0, 0}, half[2] = {all, all};
    for (int64_t n = take(in), i = 0; i < n; i++) {
        double x = take_double(in);
        int32_t weight = (int32_t)take(in);
        vl_f64_sum_add(&all, x, weight);
        vl_f64_sum_add(&half[i & 1], x, weight);
        give_double(vl_f64_sum_value(&all));
    }
    vl_f64_sum_merge(&half[0], &half[1]);
    give_double(vl_f64_sum_value(&half[0]));
}

int main(void) {
    input in = read_input();
    while (more(&in)) {
        int64_t op = take(&in);
        vl_errors e = 0;
        if (op < 20) {
            give_wide(wide(op, &in, &e));
            give(e);
        } else if (op < 60) {
            give(narrow(op, &in, &e));
            give(e);
        } else if (op < 70) {
            give_double(floating(op, take_double(&in)));
        } else if (op == 70) {
            vl_i128 x = take_wide(&in);
            give_double(vl_f64_of_decimal(x, (int)take(&in)));
        } else if (op == 71) {
            give(vl_i64_of_f64(take_double(&in), &e));
            give(e);
        } else if (op == 72) {
            double x = take_double(&in);
            give(vl_f64_compare(x, take_double(&in)));
        } else {
            sums(&in);
        }
    }
    free(in.words);
    return 0;
}
