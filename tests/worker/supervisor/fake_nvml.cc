// A library with the part of NVML's binary interface that the daemon uses: two GPUs of 64 GiB; on
// the second one 20 processes, pids 1000 to 1019, with 3 GiB.
#include <cstdio>
#include <cstring>

namespace {

constexpr unsigned kGpus = 2;
constexpr unsigned kProcesses = 20;
int devices[kGpus];

unsigned IndexOf(void* device) {
  return static_cast<unsigned>(static_cast<int*>(device) - devices);
}

struct Memory {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
struct Process {
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
};

}  // namespace

extern "C" {
int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
const char* nvmlErrorString(int status) { return status == 6 ? "Not Found" : "Unknown Error"; }
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = kGpus;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = &devices[index];
  return 0;
}
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  if (std::strncmp(uuid, "GPU-", 4) != 0) return 6;
  *device = &devices[uuid[4] - '0'];
  return 0;
}
int nvmlDeviceGetUUID(void* device, char* text, unsigned bytes) {
  std::snprintf(text, bytes, "GPU-%u", IndexOf(device));
  return 0;
}
int nvmlDeviceGetName(void*, char* text, unsigned bytes) {
  std::snprintf(text, bytes, "Fake H200");
  return 0;
}
int nvmlDeviceGetMemoryInfo_v2(void* device, Memory* memory) {
  if (memory->version != (sizeof(Memory) | 2u << 24)) return 25;
  memory->total = 64ull << 30;
  memory->reserved = 1ull << 30;
  memory->used = IndexOf(device) == 1 ? 3ull << 30 : 0;
  return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, Process* processes) {
  const unsigned found = IndexOf(device) == 1 ? kProcesses : 0;
  const unsigned room = *count;
  *count = found;
  if (room < found) return 7;
  for (unsigned i = 0; i < found; ++i) processes[i].pid = 1000 + i;
  return 0;
}
}
