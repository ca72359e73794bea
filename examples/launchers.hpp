/* launchers.hpp: which rank this process is, as torchrun, mpirun or srun says. One of them says
 * all, the innermost: torchrun runs inside of mpirun and of srun, mpirun inside of a job of Slurm,
 * and none of them the other way round. It is wavetrain.launchers.who of Python. */
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace launchers {

struct place {
    std::uint32_t rank = 0, world = 1;
};

/* Whether the variable is a number below 2^32; else it says so. */
inline bool number(const char *name, std::uint32_t &value) {
    const char *const text = std::getenv(name);
    char *end = nullptr;
    const bool is_digit = text && *text >= '0' && *text <= '9';
    const unsigned long long found = is_digit ? std::strtoull(text, &end, 10) : 0;
    if (!is_digit || *end != '\0' || found > UINT32_MAX) {
        std::fprintf(stderr, "%s must be a number: set it, or unset it\n", name);
        return false;
    }
    value = static_cast<std::uint32_t>(found);
    return true;
}

/* Reads the rank and the world of a launcher from two variables. False: one is missing or wrong. */
inline bool told(const char *rank, const char *world, place &found) {
    const bool has_rank = std::getenv(rank), has_world = std::getenv(world);
    if (!has_rank || !has_world) {
        std::fprintf(stderr, "%s is set, and %s is not: set both, or unset both\n",
                     has_rank ? rank : world, has_rank ? world : rank);
        return false;
    }
    if (!number(rank, found.rank) || !number(world, found.world))
        return false;
    if (found.rank < found.world)
        return true;
    std::fprintf(stderr, "%s must be below %s, %u (got %u)\n", rank, world, found.world,
                 found.rank);
    return false;
}

/* False, with a line on stderr, where half of it is said; and in a script of sbatch, or a shell of
 * salloc, for several tasks, which is one process: as rank 0 it would do a part of the work. */
inline bool who(place &found) {
    const char *const pairs[][2] = {
        { "RANK", "WORLD_SIZE" },
        { "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE" },
        { "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE" },
        { "PMI_RANK", "PMI_SIZE" },
    };
    for (const auto &pair : pairs)
        if (std::getenv(pair[0]) || std::getenv(pair[1]))
            return told(pair[0], pair[1], found);
    /* Steps that srun did not start have the last numbers, or none. */
    std::uint32_t step = UINT32_MAX, tasks = 1;
    if (std::getenv("SLURM_STEP_ID") && !number("SLURM_STEP_ID", step))
        return false;
    if (step < UINT32_MAX - 15) {
        const char *const own = "SLURM_STEP_NUM_TASKS";
        return told("SLURM_PROCID", std::getenv(own) ? own : "SLURM_NTASKS", found);
    }
    if (std::getenv("PMIX_RANK")) {
        std::fprintf(stderr, "PMIX_RANK is set, and its launcher sets no number of ranks: set RANK "
                             "and WORLD_SIZE\n");
        return false;
    }
    if (std::getenv("SLURM_NTASKS") && !number("SLURM_NTASKS", tasks))
        return false;
    if (tasks > 1)
        std::fprintf(stderr,
                     "SLURM_NTASKS is %u, and srun did not start this process, which is the only "
                     "one then: start it with srun, or unset SLURM_NTASKS to do all here\n",
                     tasks);
    found = place();
    return tasks <= 1;
}

} // namespace launchers
