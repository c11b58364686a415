// Copies that the threads of a group request together and that arrive, at the latest, when the group waits.
#pragma once
#include "../cuda_pipeline.h"
#include "../cooperative_groups.h"
#include "../cuda/aligned_size"

namespace cooperative_groups {

template <class G, class T, class S> EMU_INLINE void memcpy_async(const G& group, T* to, const S* from, size_t bytes) {
    emu::copy_shared((char*)to, (const char*)from, bytes, group.thread_rank(), group.size());
    emu::commit_copies();
}
template <class G, class T, class S, size_t A>
EMU_INLINE void memcpy_async(const G& group, T* to, const S* from, cuda::aligned_size_t<A> bytes) {
    memcpy_async(group, to, from, size_t(bytes));
}
template <class G, class T>
EMU_INLINE void memcpy_async(const G& group, T* to, size_t most, const T* from, size_t count) {
    memcpy_async(group, to, from, sizeof(T) * (most < count ? most : count));
}
template <class G> void wait(const G& group, EMU_HERE) {
    emu::wait_for_copies(0);
    group.sync(file, line);
}
template <unsigned pending, class G> void wait_prior(const G& group, EMU_HERE) {
    emu::wait_for_copies(pending);
    group.sync(file, line);
}

}  // namespace cooperative_groups
