/* Finds librdkafka's functions at run time. */
#include "librdkafka.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

struct librdkafka rdkafka;

static const char *reason(void) {
    const char *said = dlerror();
    return said ? said : "no reason given";
}

int librdkafka_find(const char *path, char *problem, size_t problem_size) {
    struct librdkafka found;
    /* Nothing is loaded twice: whoever is not there already is not the library of the clients. */
    void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);

    if (!library) {
        snprintf(problem, problem_size, "%s is not loaded (%s)", path, reason());
        return -1;
    }
#define FIND(result, name, arguments)                                                              \
    *(void **)&found.name = dlsym(library, "rd_kafka_" #name);                                     \
    if (!found.name) {                                                                             \
        snprintf(problem, problem_size, "its librdkafka lacks rd_kafka_%s", #name);                \
        dlclose(library);                                                                          \
        return -1;                                                                                 \
    }
    LIBRDKAFKA_FUNCTIONS(FIND)
#undef FIND
    rdkafka = found;
    return 0; /* The handle is kept: what was found must stay where it is. */
}
