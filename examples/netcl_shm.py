"""netcl's loop over shared memory: a pool of processes stacks batches into the slots of a ring."""

import multiprocessing

import numpy as np
from netcl_dataset import MyDataset

from wavetrain.netcl import SharedBatchRingBuffer, worker_write_to_shm

BATCH, dataset = 64, MyDataset()


def work(attach_info, slot_id, indices):
    return worker_write_to_shm(attach_info, slot_id, *zip(*[dataset[i] for i in indices]))


if __name__ == "__main__":
    batches, count, total = np.array_split(np.random.permutation(1000), 16), 0, 0
    ring, jobs = SharedBatchRingBuffer([((BATCH, 3, 32, 32), "u1"), ((BATCH,), "i8")], 8), []
    with multiprocessing.get_context("forkserver").Pool(2) as pool:
        for number in range(len(batches) + len(ring)):
            slot_id = number % len(ring)
            if number >= len(ring):  # the batch in the slot
                size = jobs[number - len(ring)].get()
                xb, yb = (array[:size] for array in ring.slot_copy(slot_id))
                count, total = count + len(yb), total + int(xb[:, 0, 0, 0].sum()) + int(yb.sum())
            if number < len(batches):
                jobs.append(pool.apply_async(work, (ring.attach_info, slot_id, batches[number])))
    print(f"{count} samples, sum {total}")
