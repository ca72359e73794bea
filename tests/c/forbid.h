/* forbid.h: from a call on the kernel kills the process at the first mmap, munmap, mremap, brk or
 * clone. Needs _GNU_SOURCE before the first include.
 */
#ifndef FORBID_H
#define FORBID_H

#include "check.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static inline void forbid(const unsigned *calls, unsigned count) {
    struct sock_filter filter[32];
    unsigned n = 0;
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                               offsetof(struct seccomp_data, nr));
    for (unsigned i = 0; i < count; i++) {
        filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i], 0, 1);
        filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    }
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    const struct sock_fprog program = { (unsigned short)n, filter };
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0) {
        printf("skipped: this kernel takes no seccomp filter for all threads\n");
        fflush(stdout);
        _exit(EXIT_SKIPPED);
    }
}

static inline void forbid_memory(void) {
            const unsigned calls[] = { SYS_mmap,  SYS_munmap, SYS_mremap, SYS_brk,
                                       SYS_clone, SYS_clone3,
#ifdef SYS_fork
                                       SYS_fork,  SYS_vfork
#endif
            };
    forbid(calls, sizeof calls / sizeof calls[0]);
}

#endif
