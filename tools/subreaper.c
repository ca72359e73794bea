/* TreeLauncherSubreaper of compute-sanitizer, which its PyPI package leaves out.
 *
 * In: argv = the path of this file, the program's arguments, the program; the environment that the
 * program is to have. Out: the program, in this process, whose descendants become children of it
 * and not of init. The one that NVIDIA ships also tells the front end how the program ended; with
 * this one that says that it cannot find the exit code, so what it is worth is read from its words.
 *
 * Built with -static: the environment preloads libraries that are for the program. */
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

extern char **environ;

int main(int argc, char **argv) {
    if (argc < 2) {
        fputs("subreaper: no program is named\n", stderr);
        return 127;
    }
    char *program = argv[argc - 1];
    argv[argc - 1] = NULL;
    argv[0] = program;
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0) execve(program, argv, environ);
    perror(program);
    return 127;
}
