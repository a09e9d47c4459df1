/* The module nearcall._core: its state, its types, its place in a fork. */
#include "core.h"
#include "limits_gen.h"

#include <nearcall_resident.h>

static PyModuleDef core_module;

core_state *core_state_of(PyTypeObject *type)
{
    while (type != NULL) {
        PyObject *module = PyType_GetModule(type);

        if (module == NULL)
            PyErr_Clear();
        else if (PyModule_GetDef(module) == &core_module)
            return PyModule_GetState(module);
        type = PyType_GetSlot(type, Py_tp_base);
    }
    PyErr_SetString(PyExc_SystemError, "nearcall._core: a type without its module");
    return NULL;
}

static PyObject *after_fork_in_child(PyObject *module, PyObject *Py_UNUSED(unused))
{
    core_state *state = PyModule_GetState(module);

    state->fork_generation++;
    Py_RETURN_NONE;
}

static PyObject *fork_generation(PyObject *module, PyObject *Py_UNUSED(unused))
{
    core_state *state = PyModule_GetState(module);

    return PyLong_FromUnsignedLongLong(state->fork_generation);
}

static PyObject *library_version(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    return PyUnicode_FromString(nearcall_version());
}

static PyMethodDef module_methods[] = {
    {"_after_fork_in_child", after_fork_in_child, METH_NOARGS, NULL},
    {"fork_generation", fork_generation, METH_NOARGS,
     "fork_generation($module, /)\n--\n\nA number that differs between a process and its forked children."},
    {"carry_out", (PyCFunction)(void (*)(void))core_carry_out, METH_FASTCALL,
     "carry_out($module, function, /, *args)\n--\n\nCall a function, and again where a signal's handler has ended it by raising; that is raised afterwards."},
    {"carry_out_and_tell", (PyCFunction)(void (*)(void))core_carry_out_and_tell, METH_FASTCALL,
     "carry_out_and_tell($module, report, function, /, *args)\n--\n\nThe same, where what was raised is given to report(), and not raised."},
    {"whole_number", core_whole_number, METH_VARARGS,
     "whole_number($module, name, value, least, most, /)\n--\n\nThe value of an option of that name, which has 32 bits."},
    {"function_name", core_function_name, METH_O,
     "function_name($module, name, /)\n--\n\nA function's name as an exact str."},
    {"seconds", core_seconds, METH_O,
     "seconds($module, timeout, /)\n--\n\nA timeout, or None; inf also for what is longer than can be counted."},
    {"library_version", library_version, METH_NOARGS,
     "library_version($module, /)\n--\n\nThe version of libnearcall inside this extension."},
    {NULL, NULL, 0, NULL},
};

static PyObject *import_name(const char *module_name, const char *name)
{
    PyObject *module = PyImport_ImportModule(module_name);
    PyObject *value = module == NULL ? NULL : PyObject_GetAttrString(module, name);

    Py_XDECREF(module);
    return value;
}

static PyObject *make_epoch(void)
{
    PyObject *timezone = import_name("datetime", "timezone");
    PyObject *utc = timezone == NULL ? NULL : PyObject_GetAttrString(timezone, "utc");
    PyObject *datetime = utc == NULL ? NULL : import_name("datetime", "datetime");
    PyObject *epoch = NULL;

    if (datetime != NULL)
        epoch = PyObject_CallFunction(datetime, "iiiiiiiO", 1970, 1, 1, 0, 0, 0, 0, utc);
    Py_XDECREF(timezone);
    Py_XDECREF(utc);
    Py_XDECREF(datetime);
    return epoch;
}

static PyObject *type_own(const char *name)
{
    PyObject *names = PyObject_GetAttrString((PyObject *)&PyType_Type, "__dict__");
    PyObject *own = names == NULL ? NULL : PyMapping_GetItemString(names, name);

    Py_XDECREF(names);
    return own;
}

/* What classes are asked by, and the classes of the descriptors that they have. */
static int import_classes(core_state *state)
{
    if ((state->order_of = type_own("__mro__")) == NULL
        || (state->names_of = type_own("__dict__")) == NULL
        || (state->dict_keys = PyObject_GetAttrString((PyObject *)&PyDict_Type, "keys")) == NULL
        || (state->dict_getitem = PyObject_GetAttrString((PyObject *)&PyDict_Type, "__getitem__")) == NULL
        || (state->slot_type = (PyTypeObject *)import_name("types", "MemberDescriptorType")) == NULL
        || (state->place_type = (PyTypeObject *)import_name("collections", "_tuplegetter")) == NULL
        || (state->getset_type = (PyTypeObject *)import_name("types", "GetSetDescriptorType")) == NULL
        || (state->mapping_type = import_name("collections.abc", "Mapping")) == NULL)
        return -1;
    return 0;
}

static int import_files(core_state *state)
{
    if ((state->descriptor_of = import_name("nearcall._files", "descriptor_of")) == NULL
        || (state->raw_file = import_name("io", "FileIO")) == NULL
        || (state->buffered_reader = import_name("io", "BufferedReader")) == NULL
        || (state->buffered_writer = import_name("io", "BufferedWriter")) == NULL
        || (state->buffered_random = import_name("io", "BufferedRandom")) == NULL)
        return -1;
    return 0;
}

static int import_objects(core_state *state)
{
    if ((state->make_error = import_name("nearcall._errors", "make_error")) == NULL
        || (state->make_signature = import_name("nearcall._schema", "signature")) == NULL
        || (state->make_doc = import_name("nearcall._schema", "doc")) == NULL
        || (state->keyword_names = import_name("nearcall._schema", "keyword_names")) == NULL
        || (state->plain_of = import_name("nearcall._values", "plain")) == NULL
        || (state->number_of = import_name("nearcall._values", "number")) == NULL
        || (state->seconds_of_number = import_name("nearcall._values", "seconds")) == NULL
        || (state->boolean_of = import_name("nearcall._values", "boolean")) == NULL
        || (state->integer_of = import_name("nearcall._values", "integer")) == NULL
        || (state->text_of = import_name("nearcall._values", "text")) == NULL
        || (state->no_lists = import_name("nearcall._values", "NO_LISTS")) == NULL
        || (state->buffer_of = import_name("nearcall._values", "buffer")) == NULL
        || (state->declared_names = import_name("nearcall._values", "declared_names")) == NULL
        || (state->record_of = import_name("nearcall._values", "record")) == NULL
        || (state->require_elements = import_name("nearcall._values", "require_elements")) == NULL
        || (state->is_absent = import_name("nearcall._values", "is_absent")) == NULL
        || (state->finer_of = import_name("nearcall._values", "finer")) == NULL
        || (state->shown = import_name("nearcall._values", "shown")) == NULL
        || (state->refusal = import_name("nearcall._values", "Refusal")) == NULL
        || (state->error_class = import_name("nearcall._errors", "NearcallError")) == NULL
        || (state->memoryview_type = (PyTypeObject *)import_name("builtins", "memoryview")) == NULL
        || (state->datetime_type = import_name("datetime", "datetime")) == NULL
        || (state->timedelta_type = import_name("datetime", "timedelta")) == NULL
        || (state->epoch = make_epoch()) == NULL
        || import_classes(state) < 0 || import_files(state) < 0
        || (state->days_of = PyObject_GetAttrString(state->timedelta_type, "days")) == NULL
        || (state->seconds_of = PyObject_GetAttrString(state->timedelta_type, "seconds")) == NULL
        || (state->microseconds_of = PyObject_GetAttrString(state->timedelta_type, "microseconds")) == NULL
        || (state->text_timeout = PyUnicode_InternFromString("timeout")) == NULL
        || (state->text_keys = PyUnicode_InternFromString("keys")) == NULL
        || (state->text_getitem = PyUnicode_InternFromString("__getitem__")) == NULL
        || (state->text_data = PyUnicode_InternFromString("_data")) == NULL)
        return -1;
    return 0;
}

static int add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **ret_type)
{
    *ret_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    return *ret_type == NULL ? -1 : PyModule_AddType(module, *ret_type);
}

static int add_types(PyObject *module, core_state *state)
{
    if (add_type(module, &core_client_spec, &state->client_type) < 0
        || add_type(module, &core_function_spec, &state->function_type) < 0
        || add_type(module, &core_call_spec, &state->call_type) < 0
        || add_type(module, &core_engine_spec, &state->engine_type) < 0
        || add_type(module, &core_handoff_spec, &state->handoff_type) < 0
        || add_type(module, &core_resident_spec, &state->resident_type) < 0
        || add_type(module, &core_view_spec, &state->view_type) < 0)
        return -1;
    return 0;
}

static int add_limits(PyObject *module)
{
    if (PyModule_AddIntConstant(module, "HANDOFF_BACK_MS", NC_HANDOFF_BACK_MS) < 0)
        return -1;
    if (PyModule_AddIntConstant(module, "CLIENT_UNSENT_BYTES_MAX", NC_CLIENT_UNSENT_BYTES_MAX) < 0)
        return -1;
    if (PyModule_AddIntConstant(module, "ATTEMPTS_MAX_CEILING", NC_ATTEMPTS_MAX_CEILING) < 0)
        return -1;
    return PyModule_AddIntConstant(module, "HANDOFF_REST_MS", NC_HANDOFF_REST_MS);
}

/* For calls that are refused before they come to an engine. */
static int add_texts(PyObject *module)
{
    return PyModule_AddStringConstant(module, "CLOSED", CORE_CLOSED);
}

/* What nearcall.resident says that a program has read. */
static int add_reads(PyObject *module)
{
    if (PyModule_AddIntConstant(module, "RESIDENT_VARIABLE", NEARCALL_RESIDENT_VARIABLE) < 0
        || PyModule_AddIntConstant(module, "RESIDENT_DIRECTORY", NEARCALL_RESIDENT_DIRECTORY) < 0)
        return -1;
    return PyModule_AddIntConstant(module, "RESIDENT_INPUT", NEARCALL_RESIDENT_INPUT);
}

/* libnearcall notices a fork by itself. What it cannot know is which threads of
 * the parent held a channel: the child lacks them. */
static int watch_forks(PyObject *module)
{
    PyObject *hook = PyObject_GetAttrString(module, "_after_fork_in_child");
    PyObject *arguments = PyTuple_New(0);
    PyObject *keywords = hook == NULL ? NULL : Py_BuildValue("{sO}", "after_in_child", hook);
    PyObject *install = import_name("os", "register_at_fork");
    PyObject *done = NULL;

    if (arguments != NULL && keywords != NULL && install != NULL)
        done = PyObject_Call(install, arguments, keywords);
    Py_XDECREF(hook);
    Py_XDECREF(arguments);
    Py_XDECREF(keywords);
    Py_XDECREF(install);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

static int module_exec(PyObject *module)
{
    core_state *state = PyModule_GetState(module);

    if (import_objects(state) < 0 || add_types(module, state) < 0 || add_limits(module) < 0 || add_texts(module) < 0
        || add_reads(module) < 0)
        return -1;
    return watch_forks(module);
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    core_state *state = PyModule_GetState(module);

    Py_VISIT(state->client_type);
    Py_VISIT(state->function_type);
    Py_VISIT(state->call_type);
    Py_VISIT(state->engine_type);
    Py_VISIT(state->handoff_type);
    Py_VISIT(state->resident_type);
    Py_VISIT(state->view_type);
    Py_VISIT(state->make_error);
    Py_VISIT(state->make_signature);
    Py_VISIT(state->make_doc);
    Py_VISIT(state->keyword_names);
    Py_VISIT(state->descriptor_of);
    Py_VISIT(state->raw_file);
    Py_VISIT(state->buffered_reader);
    Py_VISIT(state->buffered_writer);
    Py_VISIT(state->buffered_random);
    Py_VISIT(state->plain_of);
    Py_VISIT(state->number_of);
    Py_VISIT(state->seconds_of_number);
    Py_VISIT(state->boolean_of);
    Py_VISIT(state->integer_of);
    Py_VISIT(state->text_of);
    Py_VISIT(state->no_lists);
    Py_VISIT(state->buffer_of);
    Py_VISIT(state->declared_names);
    Py_VISIT(state->record_of);
    Py_VISIT(state->require_elements);
    Py_VISIT(state->is_absent);
    Py_VISIT(state->finer_of);
    Py_VISIT(state->shown);
    Py_VISIT(state->refusal);
    Py_VISIT(state->error_class);
    Py_VISIT(state->memoryview_type);
    Py_VISIT(state->datetime_type);
    Py_VISIT(state->timedelta_type);
    Py_VISIT(state->slot_type);
    Py_VISIT(state->place_type);
    Py_VISIT(state->getset_type);
    Py_VISIT(state->mapping_type);
    return 0;
}

static int module_clear(PyObject *module)
{
    core_state *state = PyModule_GetState(module);

    Py_CLEAR(state->client_type);
    Py_CLEAR(state->function_type);
    Py_CLEAR(state->call_type);
    Py_CLEAR(state->engine_type);
    Py_CLEAR(state->handoff_type);
    Py_CLEAR(state->resident_type);
    Py_CLEAR(state->view_type);
    Py_CLEAR(state->make_error);
    Py_CLEAR(state->make_signature);
    Py_CLEAR(state->make_doc);
    Py_CLEAR(state->keyword_names);
    Py_CLEAR(state->descriptor_of);
    Py_CLEAR(state->raw_file);
    Py_CLEAR(state->buffered_reader);
    Py_CLEAR(state->buffered_writer);
    Py_CLEAR(state->buffered_random);
    Py_CLEAR(state->plain_of);
    Py_CLEAR(state->number_of);
    Py_CLEAR(state->seconds_of_number);
    Py_CLEAR(state->boolean_of);
    Py_CLEAR(state->integer_of);
    Py_CLEAR(state->text_of);
    Py_CLEAR(state->no_lists);
    Py_CLEAR(state->buffer_of);
    Py_CLEAR(state->declared_names);
    Py_CLEAR(state->record_of);
    Py_CLEAR(state->require_elements);
    Py_CLEAR(state->is_absent);
    Py_CLEAR(state->finer_of);
    Py_CLEAR(state->shown);
    Py_CLEAR(state->refusal);
    Py_CLEAR(state->error_class);
    Py_CLEAR(state->memoryview_type);
    Py_CLEAR(state->datetime_type);
    Py_CLEAR(state->timedelta_type);
    Py_CLEAR(state->epoch);
    Py_CLEAR(state->order_of);
    Py_CLEAR(state->names_of);
    Py_CLEAR(state->dict_keys);
    Py_CLEAR(state->dict_getitem);
    Py_CLEAR(state->slot_type);
    Py_CLEAR(state->place_type);
    Py_CLEAR(state->getset_type);
    Py_CLEAR(state->mapping_type);
    Py_CLEAR(state->days_of);
    Py_CLEAR(state->seconds_of);
    Py_CLEAR(state->microseconds_of);
    Py_CLEAR(state->text_timeout);
    Py_CLEAR(state->text_keys);
    Py_CLEAR(state->text_getitem);
    Py_CLEAR(state->text_data);
    return 0;
}

static void module_free(void *module)
{
    nearcall_close(((core_state *)PyModule_GetState(module))->judge);
    module_clear(module);
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, module_exec},
    {0, NULL},
};

static PyModuleDef core_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "nearcall._core",
    .m_doc = "libnearcall for Python. Use the names of the package nearcall.",
    .m_size = sizeof(core_state),
    .m_methods = module_methods,
    .m_slots = module_slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
    .m_free = module_free,
};

PyMODINIT_FUNC PyInit__core(void)
{
    return PyModuleDef_Init(&core_module);
}
