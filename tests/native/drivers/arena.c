/* Operations on one arena: 0 slot bytes = allocate, 1 slot = free, 2 = report, 3 = save and load,
 * 4 bytes = reserve, 5 slot bytes = allocate only within the limit, 6 slot bytes = allocate through another
 * mapping of the same file, as another process would; 7 bytes = have memory for so much growth.
 * First word: memory limit. Second: 1 = file-backed. */
#include "driver.h"

enum { SLOTS = 1024 };
typedef struct {
    vl_account account;
    vl_ref block[SLOTS];
    uint64_t bytes[SLOTS];
} root;

static void fill(vl_arena *a, const root *r, int64_t slot) {
    memset(vl_at(a, r->block[slot]), (int)(slot & 0xff), r->bytes[slot]);
}

static void check(vl_arena *a, const root *r, int64_t slot) {
    const uint8_t *p = vl_at(a, r->block[slot]);
    for (uint64_t i = 0; i < r->bytes[slot]; i++) require(p[i] == (uint8_t)slot, "a block was overwritten");
}

static void allocate(vl_arena *a, root *r, int64_t slot, uint64_t bytes, bool within) {
    vl_ref block = within ? vl_try_alloc(a, &r->account, bytes) : vl_alloc(a, &r->account, bytes);
    r->block[slot] = block;
    r->bytes[slot] = bytes;
    if (block) fill(a, r, slot);
    give((int64_t)block);
    give(a->errors);
    a->errors = 0;
}

static void report(vl_arena *a, const root *r) {
    const vl_header *h = vl_head(a);
    for (int64_t slot = 0; slot < SLOTS; slot++)
        if (r->block[slot]) check(a, r, slot);
    give((int64_t)r->account.bytes);
    give((int64_t)r->account.blocks);
    give((int64_t)h->live);
    give((int64_t)h->top);
    give((int64_t)vl_arena_idle(a));
}

/* Through a file and back, attached in place the first time and read into memory the second. */
static void reopen(vl_arena *a, uint64_t limit) {
    uint8_t other[32] = "another program";
    FILE *file = tmpfile();
    int fd = fileno(file);
    require(vl_arena_save(a, fd) == VL_OK, "save");
    int old_fd = a->fd;
    vl_arena_close(a);
    require(vl_arena_attach_file(a, fd, limit, other) == VL_E_FORMAT, "another program's image was attached");
    require(vl_arena_attach_file(a, fd, limit, PROGRAM) == VL_OK, "attach");
    FILE *copy = tmpfile();
    require(vl_arena_save(a, fileno(copy)) == VL_OK, "save again");
    vl_arena_close(a);
    fclose(file);
    if (old_fd >= 0) {
        require(vl_arena_attach_file(a, fileno(copy), limit, PROGRAM) == VL_OK, "attach again"); /* stays open */
    } else {
        require(vl_arena_load(a, fileno(copy), limit, PROGRAM) == VL_OK, "load");
        fclose(copy);
    }
}

static void allocate_elsewhere(vl_arena *a, int64_t slot, uint64_t bytes) {
    vl_arena other;
    require(vl_arena_attach_file(&other, a->fd, a->limit, PROGRAM) == VL_OK, "attach a second time");
    root *r = vl_at(&other, vl_head(&other)->roots[0]);
    allocate(&other, r, slot, bytes, false);
    vl_arena_close(&other);
    require(vl_arena_refresh(a) == VL_OK, "refresh");
    VL_UNPOISON(vl_at(a, 0), vl_head(a)->top); /* the other mapping knows what is allocated now */
}

int main(void) {
    input in = read_input();
    uint64_t limit = (uint64_t)take(&in);
    vl_arena a;
    FILE *file = take(&in) ? tmpfile() : NULL;
    vl_errors opened = file ? vl_arena_create_file(&a, fileno(file), limit, PROGRAM) : vl_arena_create(&a, limit, PROGRAM);
    require(opened == VL_OK, "create");
    vl_account own = {0, 0};
    vl_ref at = vl_alloc_zeroed(&a, &own, sizeof(root));
    vl_head(&a)->roots[0] = at;
    while (more(&in)) {
        root *r = vl_at(&a, vl_head(&a)->roots[0]);
        int64_t op = take(&in), slot;
        switch (op) {
        case 0:
        case 5:
            slot = take(&in);
            allocate(&a, r, slot, (uint64_t)take(&in), op == 5);
            break;
        case 1:
            slot = take(&in);
            check(&a, r, slot);
            vl_free(&a, &r->account, r->block[slot], r->bytes[slot]);
            r->block[slot] = 0;
            break;
        case 2:
            report(&a, r);
            break;
        case 3:
            reopen(&a, limit);
            break;
        case 4:
            give(vl_reserve(&a, (uint64_t)take(&in)));
            a.errors = 0;
            break;
        case 6:
            slot = take(&in);
            allocate_elsewhere(&a, slot, (uint64_t)take(&in));
            break;
        case 7:
            give(vl_make_present(&a, (uint64_t)take(&in)));
            a.errors = 0;
            break;
        default:
            require(false, "unknown operation");
        }
    }
    vl_arena_close(&a);
    free(in.words);
    return 0;
}
