/*
 * nearcall_schema.h - the descriptions of a server's functions, and values read by them
 *
 * This is a part of nearcall.h, which includes it. nearcall.h is the manual for handles,
 * errors, threads and forks. spec/schema.md has the types and their values.
 *
 *     nearcall_schema *schema;
 *     int r = nearcall_schema_fetch(client, 0, &schema);
 *     if (r == NEARCALL_OK)
 *         for (const nearcall_description *f = nearcall_schema_functions(schema); f; f = f->next) {
 *             printf("%s: %s\n", f->name, f->doc);
 *             for (const nearcall_field *p = f->params; p; p = p->next)
 *                 printf("    %s %s\n", p->name, p->type->name);
 *         }
 *     nearcall_schema_free(schema);
 */
#ifndef NEARCALL_SCHEMA_H
#define NEARCALL_SCHEMA_H

#include "nearcall.h"
#include "nearcall_values.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Descriptions of functions, checked and compiled. Opaque. It belongs to no handle, and
 * never changes once it is made, so several threads and forked children may read it. */
typedef struct nearcall_schema nearcall_schema;

typedef struct nearcall_description nearcall_description;
typedef struct nearcall_field nearcall_field;
typedef struct nearcall_type nearcall_type;

/* What values of a type are. Later versions may add kinds. A type that this library does not
 * know, because the server is newer, is UNKNOWN in a schema of all functions: its functions are
 * listed with the others, and a value of it is neither read nor walked through. The
 * description of one function, which somebody wants to call, is refused for such a type. */
enum {
    NEARCALL_TYPE_BOOL, NEARCALL_TYPE_INTEGER, NEARCALL_TYPE_FLOAT32, NEARCALL_TYPE_FLOAT64,
    NEARCALL_TYPE_STRING, NEARCALL_TYPE_BYTES, NEARCALL_TYPE_TIME, NEARCALL_TYPE_DURATION,
    NEARCALL_TYPE_ANY, NEARCALL_TYPE_FILE, NEARCALL_TYPE_CONNECTION,
    NEARCALL_TYPE_LIST, NEARCALL_TYPE_MAP, NEARCALL_TYPE_OPTIONAL, NEARCALL_TYPE_STRUCT,
    NEARCALL_TYPE_UNKNOWN
};

/* The three structs below belong to their schema, and so does all that they point to. The
 * library only ever hands out pointers to them, so later versions may add members at their
 * ends. Texts are UTF-8 and end in NUL; a text from a server may contain another NUL. Lists
 * end with NULL. */

struct nearcall_type {
    const nearcall_type *next;    /* of all types of the schema */
    uint32_t number;              /* its place among these, from 0 */
    int kind;                     /* NEARCALL_TYPE_... */
    const char *name;             /* as the schema writes it: "int64", "list"; of a struct, its own; of an UNKNOWN, what it is called there */
    size_t name_bytes;
    int64_t least;                /* INTEGER: what fits; 0 for types without a sign */
    uint64_t most;
    const nearcall_type *key;     /* MAP: a STRING or an INTEGER */
    const nearcall_type *element; /* LIST, MAP: of the values; OPTIONAL: of the value, if there is one */
    const nearcall_field *fields; /* STRUCT; a struct may contain itself through a list, map or optional */
    uint32_t fields_count;
};

/* A parameter, a result, or a field of a struct. */
struct nearcall_field {
    const nearcall_field *next;
    const nearcall_type *type;
    const char *name;             /* "" of a result */
    size_t name_bytes;
    uint32_t number;              /* its place, from 0 */
};

struct nearcall_description {
    const nearcall_description *next; /* of all functions of the schema */
    const char *name;
    size_t name_bytes;
    const char *doc;              /* "": none */
    size_t doc_bytes;
    const char *hash;             /* 64 hex digits in lower case; "": the server does not say it, or says something else */
    int is_idempotent;
    int is_raw;                   /* the one parameter and the result may travel as they are: NEARCALL_CODEC_RAW */
    int is_variadic;              /* the last parameter takes any number of arguments, also none */
    const nearcall_field *params;
    uint32_t params_count;
    uint32_t params_required;     /* so many arguments at least: those at the end that are optional, or variadic, may be left out */
    const nearcall_field *results;
    uint32_t results_count;
};

/*
 * Compiles the description of one function, as nearcall_function_schema() returns it. The
 * bytes may go afterwards. Free the schema with nearcall_schema_free().
 *
 * NEARCALL_E_INVALID_ARGUMENT means that the description cannot be understood. Unless
 * ret_problem is NULL, *ret_problem then says why, in a text that is never freed.
 * NEARCALL_E_RESOURCE_EXHAUSTED means that there is no memory.
 */
NEARCALL_API int nearcall_schema_read(const uint8_t *description, size_t bytes,
                                      nearcall_schema **ret_schema, const char **ret_problem);

/* Asks the server which functions it has, and compiles the description of each. This makes a
 * call each time, and fails as calls do. NEARCALL_E_INTERNAL means that the answer cannot be
 * understood. After NEARCALL_E_INTERRUPTED call it again. */
NEARCALL_API int nearcall_schema_fetch(nearcall_client *client, int64_t timeout_ms,
                                       nearcall_schema **ret_schema);

/* Frees a schema with all that belongs to it. schema may be NULL. */
NEARCALL_API void nearcall_schema_free(nearcall_schema *schema);

/* The first function, from which next leads to the others; NULL if there is none. Functions
 * whose names begin with "nearcall." are those of every server, and are not listed. */
NEARCALL_API const nearcall_description *nearcall_schema_functions(const nearcall_schema *schema);

/* The first of all types that the functions use, from which next leads to the others. Unless
 * ret_count is NULL, *ret_count is set to how many there are. A program that makes something
 * of its own for each type can keep it in an array by the type's number, and needs no
 * recursion. */
NEARCALL_API const nearcall_type *nearcall_schema_types(const nearcall_schema *schema,
                                                        uint32_t *ret_count);

/* ---- Reading values by their types: no allocation, no recursion ---- */

/*
 * Reads the next value, which must be of the type. spec/schema.md allows several forms for
 * some values; this function always returns the same one. A whole number for a float becomes
 * a FLOAT, nil for an empty list or map becomes an ARRAY or MAP of count 0, and text for bytes
 * becomes BYTES. A list that came as a block is PACKED: it is read whole, and its elements are not
 * read by further calls. For an optional type it returns NIL, or a value of the element's type. Of a
 * list, a map or a struct it reads only the head. Then read elements by type->element, keys by
 * type->key, and fields by nearcall_read_field().
 *
 * The return values are those of nearcall_read(). NEARCALL_E_INVALID_ARGUMENT also means that
 * the value is of another type, or is an integer that does not fit. The reader then stays where
 * it was. Texts are not checked to be UTF-8.
 */
NEARCALL_API int nearcall_read_as(nearcall_reader *reader, const nearcall_type *type,
                                  nearcall_value *ret_value);

/* Reads the name of the next field of a struct whose head was read. *field is the field that
 * was read before, or NULL before the first. It becomes the field whose value comes next. If
 * the description has no field of that name, it becomes NULL, and the value was skipped. */
NEARCALL_API int nearcall_read_field(nearcall_reader *reader, const nearcall_type *type,
                                     const nearcall_field **field);

/* The type NEARCALL_ELEMENT_... of the elements of a list that can travel as a block; 0 for every
 * other type. */
NEARCALL_API int nearcall_packed_element(const nearcall_type *list);

/* ---- Walking through a value ---- */

/* What nearcall_walk() has found. */
enum {
    NEARCALL_WALK_VALUE, /* a value that contains no others, or a list that came as a block (PACKED) */
    NEARCALL_WALK_BEGIN, /* a list, map or struct; what is inside comes next */
    NEARCALL_WALK_END    /* its end */
};

#define NEARCALL_WALK_LEVELS 34

/* How far a walk has come. Only nearcall_walk_begin() and nearcall_walk() use its members. */
typedef struct nearcall_walker {
    nearcall_reader reader;
    const nearcall_field *value;     /* the next argument or result, NULL: none is left */
    uint32_t depth;
    struct {
        const nearcall_type *type;
        const nearcall_field *field; /* STRUCT: that was read last */
        uint64_t left;               /* elements, or pairs */
        int is_key_read;             /* MAP: its value comes next */
        int container;               /* NEARCALL_ARRAY or NEARCALL_MAP */
    } levels[NEARCALL_WALK_LEVELS];
} nearcall_walker;

typedef struct nearcall_step {
    int what;                    /* NEARCALL_WALK_... */
    uint32_t depth;              /* how many lists, maps and structs it is in */
    const nearcall_type *type;   /* of the value; never OPTIONAL, and ANY for everything within an any */
    const nearcall_field *field; /* the field, or the result, whose value it is; NULL: an element, a key or the value behind a key */
    int is_key;                  /* of a map */
    nearcall_value value;        /* not of an END */
} nearcall_step;

/* Begins a walk through the result of a function: a reply's bytes in MessagePack. */
NEARCALL_API int nearcall_walk_begin(nearcall_walker *walker, const nearcall_description *function,
                                     const uint8_t *data, size_t bytes);

/* Makes the next step. Returns 1; 0 after the last value; or NEARCALL_E_INVALID_ARGUMENT if the
 * bytes are not what the description says, nest too deeply, or are followed by others. Unknown
 * fields are left out. */
NEARCALL_API int nearcall_walk(nearcall_walker *walker, nearcall_step *ret_step);

#ifdef __cplusplus
}
#endif

#endif
