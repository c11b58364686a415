#!/bin/sh
# All that has to be shown of the rung tensor on a Hopper GPU, in stages; each stores what it finds, and what one stage finds does not stop the next.
#   benchmarks/h200/tensor.sh DATA_DIR                          # DATA_DIR has mnist/, fashion/ and cifar10/; everything, about an hour
#   benchmarks/h200/tensor.sh DATA_DIR proof speed profiles     # some stages
# Results go to $OUT, or beside this file. PYTHON names an interpreter that has warpladder's libraries, torch and JAX. SECONDS_EACH cuts a stage off.
set -u
cd "$(dirname "$0")/../.."
[ $# -ge 1 ] || { echo "usage: $0 DATA_DIR [proof] [speed] [profiles] [nets] [sanitizer] [train]" >&2; exit 2; }
data=$(cd "$1" && pwd) || exit 2
shift
[ $# -ge 1 ] || set -- proof speed profiles nets sanitizer train
here=$PWD/benchmarks/h200
out=${OUT:-$here}
python=${PYTHON:-python3}
PYTHONPATH=$PWD/src:$PWD/tests:$PWD/tests/emulator${PYTHONPATH:+:$PYTHONPATH}
export PYTHONPATH
failed=
"$python" -c 'import sys; from warpladder.device import gpu; reason = gpu.why_not(); sys.exit(reason and f"warpladder: {reason}")' || exit 2
mkdir -p "$out/profiles"

tests() { timeout "${SECONDS_EACH:-1200}" "$python" -m pytest -q -p no:cacheprovider -m "" "$@"; }

for stage in "$@"; do
    echo "== $stage"
    began=$(date +%s)
    case $stage in
    proof) # the kernels alone, and whole steps of the narrow nets
        tests tests/gpu/test_tensor_gpu.py tests/gpu/test_warpgroup_convolutions_gpu.py tests/gpu/test_first_convolution_gpu.py tests/gpu/test_tensor_rung_gpu.py
        ;;
    speed) # beside the peers of the same precision
        timeout "${SECONDS_EACH:-1200}" "$python" "$here/tensor_speed.py" --data-dir "$data" --out "$out"
        ;;
    profiles) # where a step's time goes, and the share of tensor cores
        timeout "${SECONDS_EACH:-600}" "$python" "$here/profiles.py" --data-dir "$data" --out "$out/profiles" \
            --nets cnn,autoencoder-256 --rungs graph,tensor,tensor:precision=tf32,tensor:precision=bf16,tensor:precision=fp16
        ;;
    nets) # five nets and a hundred drawn ones, at every batch
        tests tests/gpu/test_tensor_nets_gpu.py
        ;;
    sanitizer)
        PYTHON=$python timeout "${SECONDS_EACH:-1800}" scripts/test_gpu sanitizer
        ;;
    train) # goes on in its file
        [ -e "$out/tensor_training.json" ] || cp "$here/tensor_training.json" "$out/"
        timeout "${SECONDS_EACH:-3600}" "$python" "$here/tensor_training.py" --data-dir "$data" --out "$out/tensor_training.json"
        ;;
    *)
        echo "there is no stage $stage" >&2
        false
        ;;
    esac || failed="$failed $stage"
    echo "-- $stage: $(($(date +%s) - began)) s"
done
[ -z "$failed" ] || { echo "failed:$failed"; exit 1; }
