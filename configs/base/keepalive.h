// Keepalive and message limits of both ends of every channel. gRPC's server refuses pings more
// frequent than 5 minutes by default and would cut idle agents, so both sides read these. A server
// that is gone without a word is noticed within a worker's lease (15 s).
#pragma once

namespace coat {

inline constexpr int kKeepaliveTimeMs = 10'000;
inline constexpr int kKeepaliveTimeoutMs = 5'000;  // for the server's answer
// For a client's: one that has no call going on looks at its connection every 5 s at most.
inline constexpr int kIdleClientTimeoutMs = 20'000;
inline constexpr int kKeepaliveMinPingIntervalMs = 5'000;  // what the server tolerates
inline constexpr int kMaxMessageBytes = 8 * 1024 * 1024;
inline constexpr int kSyncMaxWaitMs = 5'000;
inline constexpr int kReconnectSpreadMs = 10'000;

}  // namespace coat
