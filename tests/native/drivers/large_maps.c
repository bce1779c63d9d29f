/* large_maps.c: the driver of maps.c in a program that shares the code of its maps. */
#define VL_LARGE
#define VL_COMPACT
#include "maps.c"
