// Log of a step: its loss and its number of correct samples, and the number of the next step.
#pragma once

// Writes the entry of a step, by one thread. Of a batch in slices the first sets the entry, the others add to it, the
// last one adds one to the step. now: the value of `step`. loss, correct: null without a loss; then only steps are
// counted.
__device__ inline void write_log(int now, int* step, double* loss, long long* correct, double slice_loss,
    long long slice_correct, int first, int last) {
    if (loss != nullptr) {
        loss[now] = first ? slice_loss : loss[now] + slice_loss;
        correct[now] = first ? slice_correct : correct[now] + slice_correct;
    }
    if (last) *step = now + 1;
}
__device__ inline void write_log(int* step, double* loss, long long* correct, double slice_loss,
    long long slice_correct, int first, int last) {
    write_log(*step, step, loss, correct, slice_loss, slice_correct, first, last);
}
