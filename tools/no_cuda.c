/* no_cuda.c: a libcuda.so.1 for machines without a driver, so that wheels which link it can load.
 *
 *     cc -shared -fPIC -Wl,-soname,libcuda.so.1 -o libcuda.so.1 tools/no_cuda.c
 *
 * Each call answers that there is no device. Legate then works on CPUs alone. */
#include <string.h>

enum { DONE = 0, NO_DEVICE = 100 };

int cuInit(unsigned flags) {
    (void)flags;
    return NO_DEVICE;
}

int cuMemFree_v2(unsigned long long at) {
    (void)at;
    return NO_DEVICE;
}

int cuMemFreeHost(void *at) {
    (void)at;
    return NO_DEVICE;
}

int cuDeviceGetCount(int *count) {
    *count = 0;
    return DONE;
}

int cuDriverGetVersion(int *version) {
    *version = 13000;
    return DONE;
}

int cuGetErrorName(int code, const char **text) {
    (void)code;
    *text = "CUDA_ERROR_NO_DEVICE";
    return DONE;
}

int cuGetErrorString(int code, const char **text) {
    (void)code;
    *text = "there is no CUDA device";
    return DONE;
}

static int refuse(void) {
    return NO_DEVICE;
}

int cuGetProcAddress(const char *name, void **found, int version, unsigned long long flags) {
    (void)version, (void)flags;
    if (strcmp(name, "cuGetErrorName") == 0)
        *found = (void *)cuGetErrorName;
    else if (strcmp(name, "cuGetErrorString") == 0)
        *found = (void *)cuGetErrorString;
    else
        *found = (void *)refuse;
    return DONE;
}

int cuGetProcAddress_v2(const char *name, void **found, int version, unsigned long long flags,
                        int *status) {
    if (status != NULL)
        *status = 0; /* it was found */
    return cuGetProcAddress(name, found, version, flags);
}
