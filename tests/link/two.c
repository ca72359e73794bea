/* two.c ARRAY: a host with two libraries that each carry wavetrain, under names of their own. */
#include <stdio.h>

int cube_wavetrain(const char *array);
int cube_other(const char *array);

int main(int argc, char **argv) {
    if (argc != 2)
        return 2;
    printf("%d %d %d\n", cube_wavetrain(argv[1]), cube_other(argv[1]), cube_wavetrain(argv[1]));
    return 0;
}
