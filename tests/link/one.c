/* one.c ARRAY: the smallest host. */
int cube_wavetrain(const char *array);

int main(int argc, char **argv) {
    return argc == 2 && cube_wavetrain(argv[1]) >= 0 ? 0 : 2;
}
