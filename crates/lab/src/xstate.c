// Lets User Mode Linux up to 6.12 run on processors whose extended state is larger than its buffer of 2696 bytes: those
// with AMX have 11008, or more. It is loaded into the kernel's process (LD_PRELOAD) in front of libc's ptrace.
//
// For each return to one of its processes such a kernel sets the process's extended registers from its buffer
// (PTRACE_SETREGSET, NT_X86_XSTATE). The host takes the whole state or none (EFAULT). Here the buffer is filled up with
// zeros, and the header says that what follows the buffer is in its initial state, which it is: no process gets the
// larger features without asking the host for them (arch_prctl), and User Mode Linux passes no such call on.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define NT_X86_XSTATE 0x202
#define STATE_BYTES_MAX 65536 // what the host has today is a sixth of it
#define HEADER 512            // where the bits of those features stand that are not in their initial state
#define FEATURES 0x2ffull     // x87 to PKRU: what 2696 bytes hold

static char state[STATE_BYTES_MAX];
static size_t state_bytes;

long ptrace(enum __ptrace_request request, ...) {
    va_list rest;
    va_start(rest, request);
    pid_t pid = va_arg(rest, pid_t);
    void *address = va_arg(rest, void *);
    void *data = va_arg(rest, void *);
    va_end(rest);
    static long (*next)(enum __ptrace_request, ...);
    if (!next) next = (long (*)(enum __ptrace_request, ...))dlsym(RTLD_NEXT, "ptrace");
    if (request != PTRACE_SETREGSET || (uintptr_t)address != NT_X86_XSTATE) return next(request, pid, address, data);

    struct iovec *given = data;
    if (!state_bytes) {
        struct iovec whole = {state, sizeof state};
        if (next(PTRACE_GETREGSET, pid, address, &whole) != 0) return -1;
        state_bytes = whole.iov_len;
    }
    if (given->iov_len >= state_bytes || given->iov_len < HEADER + sizeof(uint64_t))
        return next(request, pid, address, data);
    memcpy(state, given->iov_base, given->iov_len);
    memset(state + given->iov_len, 0, state_bytes - given->iov_len);
    uint64_t features;
    memcpy(&features, state + HEADER, sizeof features);
    features &= FEATURES;
    memcpy(state + HEADER, &features, sizeof features);
    struct iovec whole = {state, state_bytes};
    return next(request, pid, address, &whole);
}
