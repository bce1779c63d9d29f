/* calendar.h: dates as days and timestamps as microseconds since 1970-01-01, proleptic Gregorian.
 *
 * A year is counted from March, so that the leap day comes last, and days are grouped in cycles of 400
 * years = 146097 days. Results outside 0001-01-01 .. 9999-12-31 set VL_E_DATE.
 */
#ifndef VL_CALENDAR_H
#define VL_CALENDAR_H

#include "status.h"

typedef struct {
    int32_t year, month, day;
} vl_civil;

enum { VL_DATE_MIN = -719162, VL_DATE_MAX = 2932896 };
#define VL_DAY INT64_C(86400000000)

VL_INLINE int64_t vl_floor_div(int64_t x, int64_t y) { return x / y - (x % y < 0); } /* y > 0 */
VL_INLINE int64_t vl_floor_mod(int64_t x, int64_t y) { return x % y + (x % y < 0 ? y : 0); }

VL_INLINE int32_t vl_date_check(int64_t days, vl_errors *e) {
    if (VL_UNLIKELY(days < VL_DATE_MIN || days > VL_DATE_MAX)) {
        *e |= VL_E_DATE;
        return 0;
    }
    return (int32_t)days;
}

VL_INLINE vl_civil vl_civil_of_days(int32_t days) {
    int64_t since_march_0000 = (int64_t)days + 719468;
    int64_t cycle = vl_floor_div(since_march_0000, 146097);
    int64_t day_of_cycle = since_march_0000 - cycle * 146097;
    int64_t year_of_cycle = (day_of_cycle - day_of_cycle / 1460 + day_of_cycle / 36524 - day_of_cycle / 146096) / 365;
    int64_t day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    int64_t from_march = (5 * day_of_year + 2) / 153; /* months have 31 30 31 30 31 days, 153 in five */
    int64_t month = from_march < 10 ? from_march + 3 : from_march - 9;
    return (vl_civil){(int32_t)(year_of_cycle + cycle * 400 + (month <= 2)), (int32_t)month,
                      (int32_t)(day_of_year - (153 * from_march + 2) / 5 + 1)};
}

/* Months may lie outside 1..12 and carry into the year; days may lie outside the month. */
VL_INLINE int64_t vl_days_of_civil(int64_t year, int64_t month, int64_t day) {
    year += vl_floor_div(month - 1, 12);
    month = vl_floor_mod(month - 1, 12) + 1;
    int64_t y = year - (month <= 2), cycle = vl_floor_div(y, 400), year_of_cycle = y - cycle * 400;
    int64_t day_of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    return cycle * 146097 + year_of_cycle * 365 + year_of_cycle / 4 - year_of_cycle / 100 + day_of_year - 719468;
}

VL_INLINE int32_t vl_days_in_month(int64_t year, int64_t month) {
    return (int32_t)(vl_days_of_civil(year, month + 1, 1) - vl_days_of_civil(year, month, 1));
}

VL_INLINE int32_t vl_date_year(int32_t days) { return vl_civil_of_days(days).year; }
VL_INLINE int32_t vl_date_quarter(int32_t days) { return (vl_civil_of_days(days).month + 2) / 3; }
VL_INLINE int32_t vl_date_month(int32_t days) { return vl_civil_of_days(days).month; }
VL_INLINE int32_t vl_date_day(int32_t days) { return vl_civil_of_days(days).day; }
/* Monday = 1 .. Sunday = 7 (ISO). */
VL_INLINE int32_t vl_date_weekday(int32_t days) { return (int32_t)vl_floor_mod((int64_t)days + 3, 7) + 1; }
VL_INLINE int32_t vl_date_day_of_year(int32_t days) {
    return (int32_t)(days - vl_days_of_civil(vl_civil_of_days(days).year, 1, 1)) + 1;
}
/* ISO week: the week belongs to the year that holds its Thursday. */
VL_INLINE int32_t vl_date_week(int32_t days) {
    return (vl_date_day_of_year(days + 4 - vl_date_weekday(days)) - 1) / 7 + 1;
}

VL_INLINE int32_t vl_date_add_days(int32_t days, int64_t n, vl_errors *e) {
    int64_t sum;
    if (__builtin_add_overflow((int64_t)days, n, &sum)) sum = INT64_MAX;
    return vl_date_check(sum, e);
}

/* The same day n months later, or the last day of that month. */
VL_INLINE int32_t vl_date_add_months(int32_t days, int64_t n, vl_errors *e) {
    vl_civil c = vl_civil_of_days(days);
    if (VL_UNLIKELY(n < -120000 || n > 120000)) return vl_date_check(INT64_MAX, e);
    int32_t last = vl_days_in_month(c.year, c.month + n);
    return vl_date_check(vl_days_of_civil(c.year, c.month + n, c.day < last ? c.day : last), e);
}

VL_INLINE int32_t vl_date_last_day(int32_t days) {
    vl_civil c = vl_civil_of_days(days);
    return (int32_t)vl_days_of_civil(c.year, c.month + 1, 1) - 1;
}

/* DATE_TRUNC */
VL_INLINE int32_t vl_date_trunc_year(int32_t days) { return (int32_t)vl_days_of_civil(vl_date_year(days), 1, 1); }
VL_INLINE int32_t vl_date_trunc_quarter(int32_t days) {
    vl_civil c = vl_civil_of_days(days);
    return (int32_t)vl_days_of_civil(c.year, (c.month - 1) / 3 * 3 + 1, 1);
}
VL_INLINE int32_t vl_date_trunc_month(int32_t days) { return days - vl_date_day(days) + 1; }
VL_INLINE int32_t vl_date_trunc_week(int32_t days) { return days - vl_date_weekday(days) + 1; }

/* Timestamps: the date, and the part of the day. */
VL_INLINE int32_t vl_timestamp_date(int64_t micros, vl_errors *e) { return vl_date_check(vl_floor_div(micros, VL_DAY), e); }
VL_INLINE int64_t vl_timestamp_of_date(int32_t days) { return days * VL_DAY; }
VL_INLINE int32_t vl_timestamp_hour(int64_t micros) { return (int32_t)(vl_floor_mod(micros, VL_DAY) / INT64_C(3600000000)); }
VL_INLINE int32_t vl_timestamp_minute(int64_t micros) { return (int32_t)(vl_floor_mod(micros, INT64_C(3600000000)) / 60000000); }
VL_INLINE int32_t vl_timestamp_second(int64_t micros) { return (int32_t)(vl_floor_mod(micros, 60000000) / 1000000); }
/* Down to a multiple of `unit` microseconds: hour, minute, second, day. */
VL_INLINE int64_t vl_timestamp_trunc(int64_t micros, int64_t unit) { return micros - vl_floor_mod(micros, unit); }

#endif
