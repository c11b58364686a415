#!/bin/sh
# The peers and first starts on a GPU, in one go: proofs of the peers that were changed, cold starts, and the peers beside stand-alone programs.
#   benchmarks/h200/peers.sh DATA_DIR [SCRIPTS_DIR]     # DATA_DIR has mnist/; results go to $OUT, or beside this file
set -u
cd "$(dirname "$0")/../.."
data=$(cd "$1" && pwd)
scripts=${2:+--scripts $(cd "$2" && pwd)}
PYTHONPATH=$PWD/src:$PWD/tests${PYTHONPATH:+:$PYTHONPATH}
export PYTHONPATH
python=${PYTHON:-python3}
failed=0
$python benchmarks/h200/cold.py --data-dir "$data" || failed=1
$python benchmarks/h200/peers.py --data-dir "$data" $scripts --peers jax:device=cuda,torch:device=cuda:mode=graph --budget "${BUDGET:-220}" || failed=1
timeout 150 $python -m pytest tests/gpu/test_peers_gpu.py tests/gpu/test_tuner_gpu.py -q -p no:cacheprovider \
    -k "(jax or (torch and graph) or tuned) and (many_blocks or full_batches or tuned or (proven and mlp) or nothing)" || failed=1
exit $failed
