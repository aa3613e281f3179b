/* The module `headwater_native._clients`; the same file is librdkafka's plug-in. */
#include "python.h"

#include <dlfcn.h>

#include "changes.h"
#include "client.h"

/* The name by which librdkafka finds the plug-in; see client.c. */
extern rd_kafka_resp_err_t conf_init(rd_kafka_conf_t *, void **, char *, size_t);

static PyObject *find(PyObject *module, PyObject *path) {
    char problem[512];
    PyObject *encoded;
    int failed;

    (void)module;
    if (!PyUnicode_FSConverter(path, &encoded))
        return NULL;
    failed = librdkafka_find(PyBytes_AsString(encoded), problem, sizeof(problem));
    Py_DECREF(encoded);
    if (failed) {
        PyErr_SetString(PyExc_ImportError, problem);
        return NULL;
    }
    return PyUnicode_FromString(rdkafka.version_str());
}

static PyObject *plugin_path(PyObject *module, PyObject *unused) {
    Dl_info here;
    void *function;

    (void)module, (void)unused;
    *(rd_kafka_resp_err_t(**)(rd_kafka_conf_t *, void **, char *, size_t))&function = conf_init;
    if (!dladdr(function, &here) || !here.dli_fname) {
        PyErr_SetString(PyExc_ImportError, "the plug-in does not know its file");
        return NULL;
    }
    return PyUnicode_DecodeFSDefault(here.dli_fname);
}

static PyObject *expect(PyObject *module, PyObject *failures_only) {
    int only = PyObject_IsTrue(failures_only);

    (void)module;
    if (only < 0)
        return NULL;
    client_expect(only);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"find", find, METH_O, "Find librdkafka behind a module that is imported; return its version."},
    {"plugin_path", plugin_path, METH_NOARGS, "Return what plugin.library.paths must name."},
    {"expect", expect, METH_O, "To be called before a client is made that is to be claimed."},
    {NULL, NULL, 0, NULL},
};

/* Add a type; null, with an error, if that fails. The module keeps it. */
static PyTypeObject *add(PyObject *module, PyType_Spec *spec) {
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);

    if (type && PyModule_AddType(module, (PyTypeObject *)type))
        Py_CLEAR(type);
    return (PyTypeObject *)type;
}

/* Types are made once and never go: ours is a module of one interpreter. */
static int execute(PyObject *module) {
    return add(module, &reader_spec) && add(module, &writer_spec) && add(module, &updater_spec) &&
                   (sender_type = add(module, &sender_spec)) &&
                   (run_type = add(module, &run_spec)) &&
                   (newest_type = add(module, &newest_spec)) && !newest_prepare()
               ? 0
               : -1;
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, execute},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "headwater_native._clients",
    .m_doc = "Records between librdkafka and Python, in C.",
    .m_size = 0,
    .m_methods = functions,
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__clients(void) {
    return PyModuleDef_Init(&definition);
}
