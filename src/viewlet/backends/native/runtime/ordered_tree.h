/* ordered_tree.h: declares one ordered map from keys to records with subtree aggregates.
 *
 *   #define ORD_NAME bids_by_price
 *   #define ORD_FIELDS(F) F(int64_t, volume, sum) F(ord_i128, turnover, sum)
 *   #define ORD_SEEK_1 volume
 *   #include "ordered_tree.h"
 *
 * Every record also has the count int64_t n. Include again for the next one; the parameters are
 * forgotten. ORDERED.md lists parameters and functions.
 */
#include "ordered_core.h"
#ifdef ORD_CURSOR
#include "cursor.h"
#endif
#ifdef ORD_CHECK
#include "ordered_check.h"
#endif
#include "ordered_end.h"
