/* image.h: the state of programs at one moment, read while they go on.
 *
 *   save([(program, fd), ...]) -> pid     a child writes the arenas to files, and ends
 *   finished(pid) -> bool                 waits for it: was everything written?
 *   Program.twin() -> Program             the same program without state
 *   Program.thaw(fd)                      gives a twin the state that is in a file
 *   Program.amounts(record, field, after, most) -> (after, runs)    entries, some at a time
 *   Program.put(record, field, runs)      adds what amounts() gave, in this program or one like it
 *
 * Part of bridge.c. The child shares all pages with this process until one of the two writes to them: to freeze
 * a state takes as long as its page tables take to copy. The child may do next to nothing, for other threads
 * are gone in the midst of whatever they held; it writes and ends. It has no exit signal, so nobody else's wait
 * can meet it, and it closes every other file at once: a lock must not outlive a killed process in its child.
 * A state that lives in a file is shared with the child for good: it is copied here, before there is a child.
 */
#ifndef VL_IMAGE_H
#define VL_IMAGE_H

#include <sys/wait.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

static const uint8_t NO_HASH[32] = {0};

#ifdef __linux__
enum { WAIT_FOR_ANY_KIND = 0x40000000 }; /* __WALL, which only some headers show */
static pid_t split(void) { return (pid_t)syscall(SYS_clone, 0, 0, 0, 0, 0); }
#else
enum { WAIT_FOR_ANY_KIND = 0 };
static pid_t split(void) { return fork(); }
#endif

static void close_all_but(const int *kept, Py_ssize_t n) {
    int most = (int)sysconf(_SC_OPEN_MAX);
    for (int fd = 3; fd < most; fd++) {
        bool keep = false;
        int next = most; /* the smallest kept file from here on */
        for (Py_ssize_t i = 0; i < n; i++) {
            keep |= kept[i] == fd;
            if (kept[i] >= fd && kept[i] < next) next = kept[i];
        }
        if (keep) continue;
#ifdef SYS_close_range
        if (syscall(SYS_close_range, fd, next == most ? ~0U : (unsigned)next - 1, 0) == 0) {
            fd = next - 1;
            continue;
        }
#endif
        close(fd);
    }
}

static void write_images(Program **programs, const int *files, Py_ssize_t n) {
    close_all_but(files, n);
    for (Py_ssize_t i = 0; i < n; i++)
        if (programs[i]->file < 0 && vl_arena_save(&programs[i]->instance.arena, files[i])) _exit(1);
    _exit(0);
}

static PyObject *save_programs(PyObject *module, PyObject *list) {
    (void)module;
    if (!PyList_Check(list)) return PyErr_Format(PyExc_TypeError, "a list of programs and files");
    Py_ssize_t n = PyList_GET_SIZE(list);
    Program **programs = calloc((size_t)n + 1, sizeof *programs);
    int *files = calloc((size_t)n + 1, sizeof *files);
    bool ready = programs && files;
    if (!ready) PyErr_NoMemory();
    for (Py_ssize_t i = 0; ready && i < n; i++)
        ready = PyArg_ParseTuple(PyList_GET_ITEM(list, i), "O!i", &ProgramType, &programs[i], &files[i]) &&
                check_open(programs[i]);
    pid_t child = -1;
    for (Py_ssize_t i = 0; ready && i < n; i++)
        if (programs[i]->file >= 0 && vl_arena_save(&programs[i]->instance.arena, files[i])) {
            ready = false;
            PyErr_SetFromErrno(PyExc_OSError);
        }
    if (ready) {
        child = split();
        if (child == 0) write_images(programs, files, n);
        if (child < 0) PyErr_SetFromErrno(PyExc_OSError);
    }
    free(programs);
    free(files);
    return child < 0 ? NULL : PyLong_FromLong(child);
}

static PyObject *finished(PyObject *module, PyObject *number) {
    (void)module;
    pid_t child = (pid_t)PyLong_AsLong(number), found;
    int status = 1;
    if (PyErr_Occurred()) return NULL;
    Py_BEGIN_ALLOW_THREADS
    do found = waitpid(child, &status, WAIT_FOR_ANY_KIND);
    while (found < 0 && errno == EINTR);
    Py_END_ALLOW_THREADS
    return PyBool_FromLong(found == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static PyObject *Program_thaw(Program *self, PyObject *number) {
    int fd = (int)PyLong_AsLong(number);
    vl_instance *x = &self->instance;
    if (PyErr_Occurred()) return NULL;
    if (self->open) return PyErr_Format(PyExc_RuntimeError, "the program has a state");
    if (vl_arena_attach_file(&x->arena, fd, 0, NO_HASH)) return PyErr_Format(PyExc_OSError, "the file holds no state");
    self->open = true;
    x->state = vl_at(&x->arena, vl_head(&x->arena)->roots[0]);
    x->strings = (vl_strings *)(void *)((uint8_t *)x->state + self->strings_at);
    Py_RETURN_NONE;
}

/* An entry's keys to their runs, and 16 bytes of one field: an integer, or a pair of doubles. */
static bool put_amount(Run *runs, const vl_instance *x, const vl_record *r, const uint8_t *entry, vl_cell field) {
    for (uint32_t i = 0; i < r->keys; i++) {
        vl_cell key = vl_stored_get(entry + r->offsets[i], r->forms[i]);
        key.null = vl_key_is_null(r, entry, i);
        if (!run_put_cell(&runs[3 * i], x, &key, r->kinds[i])) return false;
    }
    return run_put(&runs[3 * r->keys], &field.as, 16);
}

/* Up to `most` entries after the one at `*after` (0: from the first on) whose field is not zero. */
static bool collect_amounts(const vl_instance *x, const vl_record *r, uint32_t at, vl_ref *after, Py_ssize_t most, Run *runs) {
    const uint8_t *entry = *after ? vl_at(&x->arena, *after) : NULL;
    for (Py_ssize_t n = 0; n < most; *after = vl_ref_of(&x->arena, entry)) {
        entry = vl_record_next(x, r, entry);
        if (!entry) {
            *after = 0;
            return true;
        }
        vl_cell field = vl_stored_get(entry + r->offsets[at], r->forms[at]);
        if (r->forms[at] == VL_AS_I64) field.as.wide = field.as.i;
        if (r->forms[at] == VL_AS_PAIR ? vl_pair_zero(field.as.sum) : field.as.wide == 0) continue;
        if (!put_amount(runs, x, r, entry, field)) return false;
        n++;
    }
    return true;
}

/* amounts(record, field, after, most) -> (after, [three runs per key as in columns(), one of amounts]) */
static PyObject *Program_amounts(Program *self, PyObject *args) {
    Py_ssize_t number, most;
    unsigned int field;
    unsigned long long from;
    if (!PyArg_ParseTuple(args, "nIKn", &number, &field, &from, &most)) return NULL;
    const vl_record *record = record_at(self, number);
    if (!record) return NULL;
    if (field >= record->fields) return PyErr_Format(PyExc_IndexError, "there is no field number %u", field);
    Py_ssize_t count = 3 * (Py_ssize_t)record->keys + 1;
    Run *runs = calloc((size_t)count, sizeof *runs);
    if (!runs) return PyErr_NoMemory();
    vl_ref after = from;
    bool done;
    self->busy = true;
    Py_BEGIN_ALLOW_THREADS
    done = collect_amounts(&self->instance, record, record->keys + field, &after, most, runs);
    Py_END_ALLOW_THREADS
    self->busy = false;
    PyObject *list = done ? runs_to_list(runs, count) : NULL;
    free_runs(runs, count);
    return list ? Py_BuildValue("(KN)", (unsigned long long)after, list) : PyErr_NoMemory();
}

typedef struct {
    const char *bytes;
    Py_ssize_t size;
} Given;

/* Do the runs of a key hold `n` values of a kind? They come from a file. */
static bool is_column(const Given *runs, uint8_t kind, Py_ssize_t n) {
    if (runs[1].size != n) return false;
    if (kind != VL_TEXT) return runs[0].size == n * (Py_ssize_t)WIDTH[kind];
    int64_t last = 0, end;
    if (runs[2].size != 8 * n) return false;
    for (Py_ssize_t i = 0; i < n; i++, last = end) {
        memcpy(&end, runs[2].bytes + 8 * i, 8);
        if (end < last || end > runs[0].size) return false;
    }
    return true;
}

static vl_cell given_cell(vl_instance *x, const Given *runs, uint8_t kind, Py_ssize_t i) {
    vl_cell cell = {0};
    cell.null = runs[1].bytes[i] == 0;
    if (cell.null) return cell;
    if (kind == VL_TEXT) {
        int64_t start = 0, end;
        if (i) memcpy(&start, runs[2].bytes + 8 * (i - 1), 8);
        memcpy(&end, runs[2].bytes + 8 * i, 8);
        vl_text text = {(const uint8_t *)runs[0].bytes + start, (uint64_t)(end - start)};
        cell.as.text = vl_intern(&x->arena, x->strings, text);
    } else if (kind == VL_INT32) {
        int32_t narrow;
        memcpy(&narrow, runs[0].bytes + 4 * i, 4);
        cell.as.i = narrow;
    } else if (kind == VL_BOOLEAN) {
        cell.as.i = runs[0].bytes[i] != 0;
    } else {
        memcpy(&cell.as, runs[0].bytes + (Py_ssize_t)WIDTH[kind] * i, WIDTH[kind]);
    }
    return cell;
}

/* put(record, field, [runs as in amounts()]) -> None, or (errors, row) */
static PyObject *Program_put(Program *self, PyObject *args) {
    Py_ssize_t number;
    unsigned int field;
    PyObject *list;
    if (!PyArg_ParseTuple(args, "nIO!", &number, &field, &PyList_Type, &list)) return NULL;
    const vl_record *r = record_at(self, number);
    if (!r) return NULL;
    Py_ssize_t count = 3 * (Py_ssize_t)r->keys + 1;
    if (field >= r->fields || PyList_GET_SIZE(list) != count) return PyErr_Format(PyExc_ValueError, "not the form of this record");
    vl_instance *x = &self->instance;
    uint32_t at = r->keys + field;
    Given *runs = calloc((size_t)count, sizeof *runs);
    vl_cell *row = calloc(r->keys + r->fields, sizeof *row);
    uint8_t *space = aligned_alloc(16, vl_round_up(r->size, 16));
    bool fits = runs && row && space;
    if (!fits) PyErr_NoMemory();
    for (Py_ssize_t i = 0; fits && i < count; i++)
        fits = PyBytes_AsStringAndSize(PyList_GET_ITEM(list, i), (char **)&runs[i].bytes, &runs[i].size) == 0;
    Py_ssize_t n = fits ? runs[count - 1].size / 16 : 0;
    for (uint32_t k = 0; fits && k < r->keys; k++) {
        fits = is_column(&runs[3 * k], r->kinds[k], n);
        if (!fits) PyErr_SetString(PyExc_ValueError, "not the form of this record");
    }
    x->arena.errors = 0;
    for (Py_ssize_t i = 0; fits && i < n && !x->arena.errors; i++) {
        for (uint32_t k = 0; k < r->keys; k++) row[k] = given_cell(x, &runs[3 * k], r->kinds[k], i);
        memcpy(&row[at].as, runs[count - 1].bytes + 16 * i, 16);
        if (r->forms[at] == VL_AS_I64) row[at].as.i = (int64_t)row[at].as.wide;
        vl_record_add(x, r, row, space);
    }
    vl_errors errors = x->arena.errors;
    x->arena.errors = 0;
    free(runs);
    free(row);
    free(space);
    return fits ? answer(errors, -1) : NULL;
}

#endif
