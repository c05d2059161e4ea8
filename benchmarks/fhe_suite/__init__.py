"""Our submission to the FHE benchmarking suite's ML inference workload (MNIST); its harness is fetched, not kept here.

Example:
  git clone https://github.com/fhe-benchmarking/ml-inference suite
  python -m benchmarks.fhe_suite.prepare suite runs/mnist_ccp4-small/seed-0
  cd suite && python3 harness/run_submission.py 0 --seed 3
"""
