"""Opens a checkpoint written by write_sample.cc (argv[1]) with the safetensors package.

Exit status 77 (skipped) with the reason when Python lacks the packages.
"""
import os
import subprocess
import sys
import tempfile


def main():
    try:
        import numpy
        from safetensors import safe_open
    except ImportError as error:
        print(f"skipped: {error}")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], folder], check=True)
        path = os.path.join(folder, "step-1.attempt-1", "rank-00000.safetensors")
        with safe_open(path, framework="numpy") as file:
            assert sorted(file.keys()) == ["bytes", "counts", "weight"], file.keys()
            weight = file.get_tensor("weight")
            assert weight.shape == (2, 3) and weight.dtype == numpy.float32
            assert (weight == [[0, 1, 2], [3, 4, 5]]).all(), weight
            assert file.get_tensor("counts").tolist() == [7, -7]
            assert file.get_tensor("bytes").tolist() == [1, 2, 255]
    print("read by safetensors: 3 tensors")
    return 0


if __name__ == "__main__":
    sys.exit(main())
