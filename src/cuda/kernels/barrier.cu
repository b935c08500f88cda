// SPDX-License-Identifier: Apache-2.0
// Barriers in shared memory (PTX, mbarrier), which threads wait for and copies complete; and rings of buffers.

__device__ __forceinline__ void init_barrier(u32 barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// One lane of the warp arrives. No branch: around one, the compiler would make products wait for each other.
__device__ __forceinline__ void arrive_once(u32 barrier) {
  asm volatile("{\n.reg .pred first;\nsetp.eq.u32 first, %1, 0;\n@first mbarrier.arrive.shared::cta.b64 _, [%0];\n}"
               ::"r"(barrier), "r"(threadIdx.x % 32) : "memory");
}
// Arrives, and makes the phase wait for so many bytes of copies.
__device__ __forceinline__ void arrive_expecting(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
// Until the phase of that parity is over; of a new barrier, the one before the first is.
__device__ __forceinline__ void wait(u32 barrier, u32 parity) {
  asm volatile("{\n.reg .pred done;\nagain:\n"
               "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
               "@done bra over;\nbra again;\nover:\n}" ::"r"(barrier), "r"(parity) : "memory");
}
__device__ __forceinline__ void copy_bulk(u32 to, const void *from, u32 bytes, u32 barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
      ::"r"(to), "l"(from), "r"(bytes), "r"(barrier) : "memory");
}

// Position in a ring, and the parity of its turn.
struct Turn {
  int at, parity;
};
template <int LENGTH>
__device__ __forceinline__ void step(Turn &turn) {
  if (++turn.at == LENGTH) turn.at = 0, turn.parity ^= 1;
}

// Registers that copying warps give to the others, where these would have too few.
__device__ __forceinline__ void give_registers() {
#if REGISTERS_TAKEN
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS_KEPT));
#endif
}
__device__ __forceinline__ void take_registers() {
#if REGISTERS_TAKEN
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS_TAKEN));
#endif
}
