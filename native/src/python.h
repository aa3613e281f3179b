/* Python's limited API of 3.11: one wheel serves every later version. */
#ifndef HEADWATER_PYTHON_H
#define HEADWATER_PYTHON_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

extern PyType_Spec reader_spec, writer_spec, sender_spec, updater_spec;
extern PyTypeObject *sender_type;

/* Of any of our objects. */
#define TYPE_OF(self) Py_TYPE((PyObject *)(self))
#define METHOD(function) ((PyCFunction)(void (*)(void))(function))

/* Give a new tuple a part; -1, with an error, if that could not be made. */
static inline int fill(PyObject *tuple, Py_ssize_t place, PyObject *made) {
    return made ? PyTuple_SetItem(tuple, place, made) : -1;
}

#endif
