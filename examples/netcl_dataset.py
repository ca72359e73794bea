"""netcl's custom data set, and its loop: two worker processes read the arrays."""

import numpy as np

import wavetrain


class MyDataset:
    def __len__(self):
        return 1000

    def __getitem__(self, i):
        x = np.full((3, 32, 32), i % 251, np.uint8)  # np.ndarray, e.g. (C, H, W)
        y = np.array(i % 10)  # np.ndarray, e.g. () (scalar)
        return x, y  # tuple of ndarrays


if __name__ == "__main__":
    with wavetrain.DataLoader(MyDataset(), 128, shuffle=True, num_workers=2, prefetch=4) as loader:
        for epoch in range(2):
            count = total = 0
            for xb, yb in loader:
                count += len(yb.numpy())
                total += int(xb.numpy()[:, 0, 0, 0].sum()) + int(yb.numpy().sum())
            print(f"epoch {epoch}: {count} samples, sum {total}")
