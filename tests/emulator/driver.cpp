/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands in for the CUDA driver: a device whose kernels run on the host, block after block. Threads of a block are fibers, which
 * run one at a time, each until it must wait. Copies that a kernel does not wait for, and products by four warps, happen as late
 * as they may (EMULATOR_EARLY=1: at once), so that who does not wait for them reads what was there before.
 * EMULATOR_ORDER=reverse: the last thread first; random: another order each round. EMULATOR_SMS: multiprocessors, 4 if not said.
 */
#include <dlfcn.h>
#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

typedef uint32_t u32;
typedef uint64_t u64;

struct EmuIndex {
  unsigned x, y, z;
};
struct EmuThread {
  EmuIndex thread, block, block_size, grid_size;
};
extern "C" EmuThread emu_thread;
EmuThread emu_thread;

enum : u32 {
  SHARED = 0x20000000,
  SHARED_BEGIN = SHARED + 1024,
  SHARED_BYTES = 1 << 18,
  CANARY = 2048,
  MOST_SHARED = 232448
};
enum { STACK = 256 << 10, MOST_THREADS = 1024 };

/* ---- fibers ---- */

typedef std::function<void()> Action;

struct Pending { /* actions in groups, the last of which is open */
  std::deque<std::vector<Action>> groups;
  std::vector<Action> open;
  void commit() { groups.push_back(std::move(open)), open.clear(); }
  void run_until(size_t left) {
    while (groups.size() > left) {
      for (auto &f : groups.front()) f();
      groups.pop_front();
    }
  }
  void run_all() { commit(), run_until(0); }
  void forget() { groups.clear(), open.clear(); }
};

struct Fiber {
  void *stack = nullptr, *sp = nullptr;
  const volatile u32 *word; /* waits until it is no longer `value`; null: can go on */
  u32 value;
  const char *waits_for;
  bool done;
  Pending copies, bulk;
};

struct Meeting { /* of a warp or of four */
  unsigned arrived;
  u32 generation;
  const char *kind;
  void *arg[128];
};

struct Barrier {
  unsigned arrived, expected;
  u32 generation;
};
struct MBarrier {
  bool live;
  u32 phase;
  int expected, pending;
  long long bytes;
};

static Fiber fibers[MOST_THREADS];
static Meeting warp_meeting[32], group_meeting[8];
static Pending group_products[8];
static Barrier barriers[16];
static MBarrier mbarriers[SHARED_BYTES / 8];
static std::deque<Action> late; /* copies by the copy engine */
static bool early;
static int current;
static unsigned thread_count, exited;
static bool aborted;
static void *scheduler_sp;
static void (*entry)(void **);
static void **entry_parameters;
static const char *kernel_name = "";

extern "C" void emu_switch(void **from, void *to);
asm(".text\n.globl emu_switch\n.hidden emu_switch\nemu_switch:\n"
    "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
    "mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n");

static void to_scheduler() { emu_switch(&fibers[current].sp, scheduler_sp); }

extern "C" __attribute__((noinline)) void emu_fail(const char *what) {
  if (!aborted)
    fprintf(stderr, "emulator: %s: block %u thread %d: %s\n", kernel_name, emu_thread.block.x,
            current, what);
  aborted = true;
  to_scheduler();
  abort();
}

static void wait_while(const volatile u32 *word, u32 value, const char *what) {
  if (*word != value) return;
  Fiber &f = fibers[current];
  f.word = word, f.value = value, f.waits_for = what;
  to_scheduler();
}

static void check_barrier(Barrier &b, unsigned expected) {
  if (b.arrived < expected) return;
  b.arrived = 0;
  b.generation++;
}

static void fiber_main() {
  entry(entry_parameters);
  Fiber &f = fibers[current];
  f.copies.run_all();
  f.bulk.run_all();
  f.done = true;
  exited++;
  if (barriers[0].arrived && barriers[0].expected == 0)
    check_barrier(barriers[0], thread_count - exited);
  to_scheduler();
  abort();
}

static void start_fiber(Fiber &f) {
  if (!f.stack)
    f.stack = mmap(nullptr, STACK, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  void **top = (void **)((char *)f.stack + STACK - 64);
  *--top = nullptr; /* where fiber_main would return to: the stack is as a call leaves it */
  *--top = (void *)fiber_main;
  for (int i = 0; i < 6; i++) *--top = nullptr;
  f.sp = top;
  f.word = nullptr;
  f.done = false;
  f.copies.forget(), f.bulk.forget();
}

static void report_deadlock() {
  std::map<std::string, std::pair<int, int>> waiting;
  for (unsigned i = 0; i < thread_count; i++)
    if (!fibers[i].done) {
      auto &w = waiting[fibers[i].waits_for];
      if (w.first++ == 0) w.second = (int)i;
    }
  fprintf(stderr, "emulator: %s: block %u: nobody can go on, %u ended\n", kernel_name,
          emu_thread.block.x, exited);
  for (auto &w : waiting)
    fprintf(stderr, "  %d wait for %s, thread %d first\n", w.second.first, w.first.c_str(),
            w.second.second);
  aborted = true;
}

static void run_block(unsigned block, u32 shared) {
  static std::vector<unsigned> order;
  static u32 random = 1;
  const char *wanted = getenv("EMULATOR_ORDER");
  memset((void *)(uintptr_t)SHARED, 0xff, 1024 + shared + CANARY);
  memset(warp_meeting, 0, sizeof warp_meeting);
  memset(group_meeting, 0, sizeof group_meeting);
  memset(barriers, 0, sizeof barriers);
  memset(mbarriers, 0, sizeof mbarriers);
  for (auto &g : group_products) g.forget();
  late.clear();
  emu_thread.block = {block, 0, 0};
  exited = 0;
  order.resize(thread_count);
  for (unsigned i = 0; i < thread_count; i++) {
    start_fiber(fibers[i]);
    order[i] = wanted && *wanted == 'r' && wanted[1] == 'e' ? thread_count - 1 - i : i;
  }
  while (exited < thread_count && !aborted) {
    bool progress = false;
    if (wanted && strcmp(wanted, "random") == 0)
      for (unsigned i = thread_count - 1; i > 0; i--)
        random = random * 1664525 + 1013904223,
        std::swap(order[i], order[(u64)random * (i + 1) >> 32]);
    for (unsigned i : order) {
      Fiber &f = fibers[i];
      if (f.done || (f.word && *f.word == f.value)) continue;
      f.word = nullptr;
      current = (int)i;
      emu_thread.thread = {i, 0, 0};
      emu_switch(&scheduler_sp, f.sp);
      progress = true;
      if (aborted) return;
    }
    if (progress) continue;
    if (late.empty()) return report_deadlock();
    Action action = std::move(late.front());
    late.pop_front();
    action();
  }
  while (!late.empty() && !aborted) late.front()(), late.pop_front();
  for (u32 i = 0; i < CANARY; i++)
    if (((unsigned char *)(uintptr_t)(SHARED_BEGIN + shared))[i] != 0xff) {
      fprintf(stderr, "emulator: %s: block %u: shared memory was written %u bytes behind its end\n",
              kernel_name, block, i);
      aborted = true;
      return;
    }
}

/* ---- threads that wait for each other ---- */

static void meet(Meeting &m, unsigned lane, unsigned count, const char *kind, void *arg,
                 void (*all)(void **)) {
  if (m.arrived == 0) m.kind = kind;
  if (m.kind != kind) {
    static char text[200];
    snprintf(text, sizeof text, "lanes are at different operations: %s and %s", m.kind, kind);
    emu_fail(text);
  }
  m.arg[lane] = arg;
  if (++m.arrived < count) return wait_while(&m.generation, m.generation, kind);
  if (all) all(m.arg);
  m.arrived = 0;
  m.generation++;
}

static void meet_warp(const char *kind, void *arg, void (*all)(void **)) {
  meet(warp_meeting[current / 32], current % 32, 32, kind, arg, all);
}
static void meet_group(const char *kind, void *arg, void (*all)(void **)) {
  meet(group_meeting[current / 128], current % 128, 128, kind, arg, all);
}

/* ---- numbers ---- */

extern "C" {
unsigned short emu_to_f16(float v) {
  return v != v ? 0x7fff : _cvtss_sh(v, _MM_FROUND_TO_NEAREST_INT);
}
float emu_from_f16(unsigned short v) { return _cvtsh_ss(v); }
unsigned short emu_to_bf16(float v) {
  u32 bits;
  memcpy(&bits, &v, 4);
  if (v != v) return 0x7fff;
  return (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
u32 emu_to_tf32(float v, bool even) {
  u32 bits;
  memcpy(&bits, &v, 4);
  if (v != v) return 0x7fffffff;
  if ((bits & 0x7f800000) == 0x7f800000) return bits;
  return (bits + (even ? 0xfff + (bits >> 13 & 1) : 0x1000)) & ~0x1fffu;
}
}
static float from_bf16(unsigned short v) {
  u32 bits = (u32)v << 16;
  float f;
  memcpy(&f, &bits, 4);
  return f;
}
static float from_16(u32 v, bool bf16) {
  return bf16 ? from_bf16((unsigned short)v) : emu_from_f16((unsigned short)v);
}
static u32 most(u32 a, u32 b, bool bf16) {
  float x = from_16(a, bf16), y = from_16(b, bf16);
  return x != x || y != y ? 0x7fff : x > y ? a : b;
}
extern "C" u32 emu_max_nan_pair(u32 a, u32 b, bool bf16) {
  return most(a & 0xffff, b & 0xffff, bf16) | most(a >> 16, b >> 16, bf16) << 16;
}

/* A word of an operand: one number or two. */
static void decode(int type, u32 word, double *to) {
  if (type == 0) {
    float f;
    word &= ~0x1fffu;
    memcpy(&f, &word, 4);
    to[0] = f;
  } else {
    to[0] = from_16(word & 0xffff, type == 2), to[1] = from_16(word >> 16, type == 2);
  }
}

/* ---- products ---- */

struct Mma {
  int type, words;
  float *d[4];
  u32 a[4], b[2];
};

static void mma_all(void **arg) {
  Mma **lane = (Mma **)arg;
  int per = lane[0]->type ? 2 : 1, words = lane[0]->words, depth = words * per;
  double a[16][16], b[8][16];
  for (int l = 0; l < 32; l++) {
    int g = l / 4, t = l % 4;
    for (int half = 0; half < words / 4; half++) {
      decode(lane[0]->type, lane[l]->a[2 * half], &a[g][(t + 4 * half) * per]);
      decode(lane[0]->type, lane[l]->a[2 * half + 1], &a[g + 8][(t + 4 * half) * per]);
      decode(lane[0]->type, lane[l]->b[half], &b[g][(t + 4 * half) * per]);
    }
  }
  for (int l = 0; l < 32; l++)
    for (int i = 0; i < 4; i++) {
      const double *x = a[l / 4 + i / 2 * 8], *y = b[l % 4 * 2 + i % 2];
      double sum = *lane[l]->d[i];
      for (int k = 0; k < depth; k++) sum += x[k] * y[k];
      *lane[l]->d[i] = (float)sum;
    }
}

struct Shuffle {
  u64 value, result;
  u32 lane;
};
static void shuffle_all(void **arg) {
  Shuffle **lane = (Shuffle **)arg;
  for (int l = 0; l < 32; l++) lane[l]->result = lane[lane[l]->lane]->value;
}

struct Wgmma {
  int type, columns;
  bool shared, add;
  float **d;
  u32 a[4];
  u64 a_at, b_at;
};

/* Eight words of a row of a matrix in shared memory: its descriptor says where. */
static void read_row(u64 matrix, int row, int type, double *to) {
  if (matrix >> 62) emu_fail("a permuted matrix is not emulated");
  u32 at = SHARED | (u32)(matrix & 0x3fff) << 4, far = (u32)(matrix >> 16 & 0x3fff) << 4,
      next = (u32)(matrix >> 32 & 0x3fff) << 4;
  for (int w = 0; w < 8; w++) {
    u32 from = at + row / 8 * next + row % 8 * 16 + w / 4 * far + w % 4 * 4;
    if (from < SHARED || from >= SHARED + SHARED_BYTES)
      emu_fail("a matrix lies beyond shared memory");
    decode(type, *(u32 *)(uintptr_t)from, to + w * (type ? 2 : 1));
  }
}

struct Product {
  Wgmma own;
  std::vector<float *> d[128];
  u32 a[128][4];
};

static void run_product(const Product &p) {
  int type = p.own.type, per = type ? 2 : 1, columns = p.own.columns;
  static double a[64][16], b[256][16];
  for (int n = 0; n < columns; n++) read_row(p.own.b_at, n, type, b[n]);
  for (int r = 0; r < 64 && p.own.shared; r++) read_row(p.own.a_at, r, type, a[r]);
  for (int l = 0; l < 128 && !p.own.shared; l++)
    for (int i = 0; i < 4; i++)
      decode(type, p.a[l][i], &a[l / 32 * 16 + l % 32 / 4 + i % 2 * 8][(l % 4 + i / 2 * 4) * per]);
  for (int l = 0; l < 128; l++)
    for (int i = 0; i < columns / 2; i++) {
      const double *x = a[l / 32 * 16 + l % 32 / 4 + i / 2 % 2 * 8],
                   *y = b[i / 4 * 8 + l % 4 * 2 + i % 2];
      double sum = p.own.add ? *p.d[l][i] : 0;
      for (int k = 0; k < 8 * per; k++) sum += x[k] * y[k];
      *p.d[l][i] = (float)sum;
    }
}

static void wgmma_all(void **arg) {
  Wgmma **lane = (Wgmma **)arg;
  auto p = std::make_shared<Product>();
  p->own = *lane[0];
  for (int l = 0; l < 128; l++) {
    if (lane[l]->add != lane[0]->add || lane[l]->a_at != lane[0]->a_at ||
        lane[l]->b_at != lane[0]->b_at)
      emu_fail("lanes name different matrices");
    p->d[l].assign(lane[l]->d, lane[l]->d + lane[0]->columns / 2);
    memcpy(p->a[l], lane[l]->a, sizeof p->a[l]);
  }
  if (early)
    run_product(*p);
  else
    group_products[current / 128].open.push_back([p] { run_product(*p); });
}
static void commit_all(void **) { group_products[current / 128].commit(); }
static void wait_all(void **arg) { group_products[current / 128].run_until(*(unsigned *)arg[0]); }

extern "C" {
void emu_mma(int type, int words, float &d0, float &d1, float &d2, float &d3, u32 a0, u32 a1,
             u32 a2, u32 a3, u32 b0, u32 b1) {
  Mma m = {type, words, {&d0, &d1, &d2, &d3}, {a0, a1, a2, a3}, {b0, b1}};
  meet_warp("mma", &m, mma_all);
}
void emu_wgmma_registers(int type, int columns, float **d, u32 a0, u32 a1, u32 a2, u32 a3, u64 b) {
  Wgmma w = {type, columns, false, true, d, {a0, a1, a2, a3}, 0, b};
  meet_group("wgmma", &w, wgmma_all);
}
void emu_wgmma_shared(int type, int columns, float **d, u64 a, u64 b, u32 add) {
  Wgmma w = {type, columns, true, add != 0, d, {}, a, b};
  meet_group("wgmma", &w, wgmma_all);
}
void emu_wgmma_fence() { meet_warp("wgmma.fence", nullptr, nullptr); }
void emu_wgmma_commit() { meet_group("wgmma.commit_group", nullptr, commit_all); }
void emu_wgmma_wait(unsigned groups) { meet_group("wgmma.wait_group", &groups, wait_all); }

void emu_syncwarp() { meet_warp("__syncwarp", nullptr, nullptr); }
u64 emu_shuffle(u64 value, unsigned lane) {
  Shuffle s = {value, 0, lane};
  meet_warp("__shfl_sync", &s, shuffle_all);
  return s.result;
}
void emu_barrier(unsigned id, unsigned threads) {
  Barrier &b = barriers[id];
  if (b.arrived && b.expected != threads) emu_fail("a barrier of different numbers of threads");
  b.expected = threads;
  u32 generation = b.generation;
  b.arrived++;
  check_barrier(b, threads ? threads : thread_count - exited);
  wait_while(&b.generation, generation, id == 0 ? "__syncthreads" : "bar.sync");
}

struct Ldmatrix {
  u32 address, word[4];
};
static void ldmatrix_all(void **arg) {
  Ldmatrix **lane = (Ldmatrix **)arg;
  for (int l = 0; l < 32; l++)
    for (int m = 0; m < 4; m++) {
      u32 from = lane[m * 8 + l / 4]->address;
      if (from % 16) emu_fail("ldmatrix: an address is no multiple of 16");
      lane[l]->word[m] = ((u32 *)(uintptr_t)from)[l % 4];
    }
}
void emu_ldmatrix4(u32 &a, u32 &b, u32 &c, u32 &d, u32 address) {
  Ldmatrix l = {address, {}};
  meet_warp("ldmatrix", &l, ldmatrix_all);
  a = l.word[0], b = l.word[1], c = l.word[2], d = l.word[3];
}

/* ---- copies ---- */

void emu_copy_async(u32 to, const void *from, unsigned bytes, unsigned filled) {
  if (to % bytes || (filled && (uintptr_t)from % bytes))
    emu_fail("cp.async: an address is not aligned");
  auto copy = [=] {
    if (filled) memcpy((void *)(uintptr_t)to, from, filled);
    memset((char *)(uintptr_t)to + filled, 0, bytes - filled);
  };
  if (early)
    copy();
  else
    fibers[current].copies.open.push_back(copy);
}
void emu_copy_commit() { fibers[current].copies.commit(); }
void emu_copy_wait(int groups) {
  Pending &p = fibers[current].copies;
  if (groups < 0)
    p.run_all();
  else
    p.run_until((size_t)groups);
}

static MBarrier &mbarrier_at(u32 at) {
  if (at < SHARED || at >= SHARED + SHARED_BYTES || at % 8) emu_fail("mbarrier: a bad address");
  return mbarriers[(at - SHARED) / 8];
}
static void check_mbarrier(MBarrier &b) {
  if (b.pending < 0) emu_fail("mbarrier: more arrive than are expected");
  if (b.pending || b.bytes) return;
  b.pending = b.expected;
  b.phase ^= 1;
}
void emu_mbarrier_init(u32 at, unsigned arrivals) {
  mbarrier_at(at) = {true, 0, (int)arrivals, (int)arrivals, 0};
}
void emu_mbarrier_arrive(u32 at, unsigned bytes) {
  MBarrier &b = mbarrier_at(at);
  if (!b.live) emu_fail("mbarrier: arrives at none");
  b.bytes += bytes;
  b.pending--;
  check_mbarrier(b);
}
void emu_mbarrier_wait(u32 at, unsigned parity) {
  MBarrier &b = mbarrier_at(at);
  if (!b.live) emu_fail("mbarrier: waits for none");
  wait_while(&b.phase, parity & 1, "mbarrier");
}
static void complete(u32 at, unsigned bytes) {
  MBarrier &b = mbarrier_at(at);
  if (!b.live) return emu_fail("mbarrier: a copy completes at none");
  b.bytes -= bytes;
  check_mbarrier(b);
}
static void by_engine(Action action) {
  if (early)
    action();
  else
    late.push_back(std::move(action));
}
void emu_bulk_to_shared(u32 to, const void *from, unsigned bytes, u32 barrier) {
  if (to % 16 || (uintptr_t)from % 16 || bytes % 16)
    emu_fail("cp.async.bulk: not a multiple of 16");
  by_engine([=] { memcpy((void *)(uintptr_t)to, from, bytes), complete(barrier, bytes); });
}
void emu_bulk_to_global(void *to, u32 from, unsigned bytes) {
  if (from % 16 || (uintptr_t)to % 16 || bytes % 16)
    emu_fail("cp.async.bulk: not a multiple of 16");
  auto copy = [=] { memcpy(to, (void *)(uintptr_t)from, bytes); };
  if (early)
    copy();
  else
    fibers[current].bulk.open.push_back(copy);
}
void emu_bulk_commit() { fibers[current].bulk.commit(); }
void emu_bulk_wait(unsigned groups) { fibers[current].bulk.run_until(groups); }

struct TensorMap {
  char *address;
  u64 strides[4];
  u32 dims[5];
  unsigned short box[5];
  unsigned char size, swizzle;
};
static_assert(sizeof(TensorMap) <= 128, "");

static void copy_tensor(u32 to, const TensorMap &m, const int c[5]) {
  u32 at = 0;
  int i[5];
  for (i[4] = 0; i[4] < m.box[4]; i[4]++)
    for (i[3] = 0; i[3] < m.box[3]; i[3]++)
      for (i[2] = 0; i[2] < m.box[2]; i[2]++)
        for (i[1] = 0; i[1] < m.box[1]; i[1]++)
          for (i[0] = 0; i[0] < m.box[0]; i[0]++, at += m.size) {
            bool inside = true;
            const char *from = m.address + (long long)(c[0] + i[0]) * m.size;
            for (int a = 0; a < 5; a++) {
              inside &= (u32)(c[a] + i[a]) < m.dims[a];
              if (a) from += (long long)(c[a] + i[a]) * (long long)m.strides[a - 1];
            }
            u32 there = to + at;
            if (m.swizzle) there ^= (there >> 7 & 7) << 4;
            if (inside)
              memcpy((void *)(uintptr_t)there, from, m.size);
            else
              memset((void *)(uintptr_t)there, 0, m.size);
          }
}
void emu_bulk_tensor(u32 to, const void *map, int c0, int c1, int c2, int c3, int c4, u32 barrier) {
  TensorMap m;
  memcpy(&m, map, sizeof m);
  if (to % 128) emu_fail("cp.async.bulk.tensor: not a multiple of 128");
  by_engine([=] {
    const int c[5] = {c0, c1, c2, c3, c4};
    u32 bytes = m.size;
    for (int a = 0; a < 5; a++) bytes *= m.box[a];
    copy_tensor(to, m, c);
    complete(barrier, bytes);
  });
}

/* ---- the driver ---- */

struct Function {
  void (*entry)(void **);
  std::string name;
};
struct Module {
  void *handle;
  std::map<std::string, Function> functions;
};
enum { OK = 0, INVALID = 1, NOT_FOUND = 500, FAILED = 719, UNSUPPORTED = 801 };
static int sticky;

int cuInit(unsigned) {
  Dl_info info;
  static bool done;
  if (done) return OK;
  done = true;
  dladdr((void *)cuInit, &info);
  if (!dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL))
    return 999; /* kernels call what is here */
  void *wanted = (void *)(uintptr_t)SHARED;
  early = getenv("EMULATOR_EARLY") != nullptr;
  return mmap(wanted, SHARED_BYTES, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == wanted
             ? OK
             : 999;
}
int cuDriverGetVersion(int *v) { return *v = 13000, OK; }
int cuGetErrorName(int r, const char **name) {
  return *name = r == FAILED ? "CUDA_ERROR_LAUNCH_FAILED" : "CUDA_ERROR", OK;
}
int cuGetErrorString(int, const char **text) { return *text = "the emulator failed", OK; }
int cuDeviceGetCount(int *n) { return *n = 1, OK; }
int cuDeviceGet(int *d, int i) { return *d = i, i ? 101 : OK; }
int cuDeviceGetName(char *name, int size, int) {
  return snprintf(name, (size_t)size, "emulator"), OK;
}
int cuDeviceTotalMem_v2(size_t *b, int) { return *b = (size_t)8 << 30, OK; }
int cuDeviceGetAttribute(int *v, int attribute, int) {
  static const std::map<int, int> known = {
      {1, 1024},   {8, 49152},        {9, 65536}, {12, 65536}, {13, 1980000}, {36, 2619000},
      {37, 5120},  {38, 50 << 20},    {39, 2048}, {75, 9},     {76, 0},       {81, 233472},
      {82, 65536}, {97, MOST_SHARED}, {106, 32},  {111, 1024}};
  const char *sms = getenv("EMULATOR_SMS");
  if (attribute == 16) return *v = sms ? atoi(sms) : 4, OK;
  auto found = known.find(attribute);
  return found == known.end() ? INVALID : (*v = found->second, OK);
}
static int a_context;
int cuDevicePrimaryCtxRetain(void **c, int) { return *c = &a_context, OK; }
int cuDevicePrimaryCtxRelease_v2(int) { return OK; }
int cuCtxPushCurrent_v2(void *) { return OK; }
int cuCtxPopCurrent_v2(void **c) { return *c = &a_context, OK; }
int cuCtxGetCurrent(void **c) { return *c = &a_context, OK; }
int cuThreadExchangeStreamCaptureMode(int *mode) { return *mode = 0, OK; }

int cuModuleLoadData(Module **m, const void *image) {
  const char *text = (const char *)image;
  if (strncmp(text, "EMULATOR", 8)) return 200;
  void *handle = dlopen(text + 8, RTLD_NOW | RTLD_LOCAL);
  if (!handle) return fprintf(stderr, "emulator: %s\n", dlerror()), 200;
  *m = new Module{handle, {}};
  return OK;
}
int cuModuleUnload(Module *m) { return dlclose(m->handle), delete m, OK; }
int cuModuleGetFunction(Function **f, Module *m, const char *name) {
  void *symbol = dlsym(m->handle, (std::string("emu_entry_") + name).c_str());
  if (!symbol) return NOT_FOUND;
  Function &found = m->functions[name];
  found.entry = (void (*)(void **))symbol;
  found.name = name;
  *f = &found;
  return OK;
}
int cuModuleGetGlobal_v2(u64 *, size_t *, Module *, const char *) { return NOT_FOUND; }
int cuFuncGetAttribute(int *v, int attribute, Function *) {
  return *v = attribute == 0 ? 1024 : attribute == 4 ? 64 : 0, OK;
}
int cuFuncSetAttribute(Function *, int attribute, int v) {
  return attribute == 8 && v > (int)MOST_SHARED ? INVALID : OK;
}
int cuTensorMapEncodeTiled(void *map, int type, unsigned rank, const void *address, const u64 *dims,
                           const u64 *strides, const unsigned *box, const unsigned *steps, int,
                           int swizzle, int, int) {
  TensorMap m = {};
  if (rank != 5 || (type != 2 && type != 4) || (uintptr_t)address % 16) return INVALID;
  m.address = (char *)address;
  m.size = type == 2 ? 4 : 8;
  m.swizzle = swizzle == 3;
  for (int i = 0; i < 5; i++) {
    if (dims[i] == 0 || box[i] == 0 || box[i] > 256 || steps[i] != 1) return INVALID;
    if (i < 4 && (strides[i] % 16 || strides[i] >> 40)) return INVALID;
    m.dims[i] = (u32)dims[i], m.box[i] = (unsigned short)box[i];
    if (i < 4) m.strides[i] = strides[i];
  }
  if (m.swizzle && box[0] * m.size > 128) return INVALID;
  memset(map, 0, 128);
  memcpy(map, &m, sizeof m);
  return OK;
}
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, Function *, int threads,
                                                size_t shared) {
  return *blocks = (int)std::min(
             {(size_t)233472 / (shared + 1024), (size_t)2048 / (size_t)threads, (size_t)2}),
         OK;
}
int cuLaunchKernel(Function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void *, void **parameters, void **) {
  static double seconds;
  if (sticky) return sticky;
  if (gy * gz * by * bz != 1 || bx > MOST_THREADS || bx % 32 || shared > MOST_SHARED || !gx)
    return INVALID;
  thread_count = bx;
  emu_thread.block_size = {bx, 1, 1}, emu_thread.grid_size = {gx, 1, 1};
  entry = f->entry, entry_parameters = parameters, kernel_name = f->name.c_str();
  aborted = false;
  clock_t begin = clock();
  for (unsigned b = 0; b < gx && !aborted; b++) run_block(b, shared);
  seconds += (double)(clock() - begin) / CLOCKS_PER_SEC;
  if (getenv("EMULATOR_LOG"))
    fprintf(stderr, "emulator: %s: %u blocks of %u threads, %u bytes; %.3f s so far\n", kernel_name,
            gx, bx, shared, seconds);
  return aborted ? sticky = FAILED : OK;
}
struct Launch {
  unsigned grid[3], block[3], shared;
  void *stream, *attributes;
  unsigned count;
};
int cuLaunchKernelEx(const Launch *l, Function *f, void **parameters, void **extra) {
  return cuLaunchKernel(f, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1],
                        l->block[2], l->shared, nullptr, parameters, extra);
}
int cuMemGetInfo_v2(size_t *available, size_t *total) {
  return *available = *total = (size_t)8 << 30, OK;
}
int cuMemAlloc_v2(u64 *p, size_t bytes) {
  void *memory = aligned_alloc(512, (bytes + 511) / 512 * 512);
  if (!memory) return 2;
  memset(memory, 0xff, bytes);
  return *p = (u64)(uintptr_t)memory, OK;
}
int cuMemFree_v2(u64 p) { return free((void *)(uintptr_t)p), OK; }
int cuMemcpyHtoDAsync_v2(u64 to, const void *from, size_t n, void *) {
  return memcpy((void *)(uintptr_t)to, from, n), OK;
}
int cuMemcpyDtoHAsync_v2(void *to, u64 from, size_t n, void *) {
  return memcpy(to, (void *)(uintptr_t)from, n), OK;
}
int cuMemcpyDtoDAsync_v2(u64 to, u64 from, size_t n, void *) {
  return memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, n), OK;
}
int cuMemsetD8Async(u64 to, unsigned char v, size_t n, void *) {
  return memset((void *)(uintptr_t)to, v, n), OK;
}
int cuPointerGetAttribute(void *v, int attribute, u64) {
  return attribute == 2 ? (*(unsigned *)v = 2, OK) : INVALID;
}
int cuStreamCreate(void **s, unsigned) { return *s = &a_context, OK; }
int cuStreamDestroy_v2(void *) { return OK; }
int cuStreamSynchronize(void *) { return OK; }
int cuStreamIsCapturing(void *, int *status) { return *status = 0, OK; }
int cuEventCreate(void **e, unsigned) { return *e = calloc(1, sizeof(double)), OK; }
int cuEventDestroy_v2(void *e) { return free(e), OK; }
int cuEventRecord(void *e, void *) { return *(double *)e = (double)clock() / CLOCKS_PER_SEC, OK; }
int cuEventSynchronize(void *) { return OK; }
int cuEventElapsedTime(float *ms, void *a, void *b) {
  return *ms = (float)((*(double *)b - *(double *)a) * 1e3), OK;
}
int cuStreamBeginCapture_v2(void *, int) { return UNSUPPORTED; }
int cuStreamEndCapture(void *, void **) { return UNSUPPORTED; }
int cuGraphInstantiateWithFlags(void **, void *, u64) { return UNSUPPORTED; }
int cuGraphLaunch(void *, void *) { return UNSUPPORTED; }
int cuGraphExecDestroy(void *) { return UNSUPPORTED; }
int cuGraphDestroy(void *) { return UNSUPPORTED; }
}
