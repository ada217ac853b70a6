// Asks a health service, whose message classes Debian has no headers for.
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <string>

namespace coat::testing {

// grpc.health.v1.Health/Check on 127.0.0.1: 1 serving, 2 not serving, -1 when the call fails or the
// answer has another form. Field 1 of the request is the service's name, of the response the state.
inline int HealthStatus(int port, const std::string& service) {
  grpc::GenericStub stub(
      grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()));
  const std::string text =
      service.empty() ? "" : "\x0a" + std::string(1, static_cast<char>(service.size())) + service;
  const grpc::Slice slice(text);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer response;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  grpc::CompletionQueue queue;
  const auto call =
      stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", request, &queue);
  call->StartCall();
  grpc::Status status;
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  grpc::Slice answer;
  if (!status.ok() || !response.DumpToSingleSlice(&answer).ok() || answer.size() != 2) return -1;
  return answer.begin()[1];
}

}  // namespace coat::testing
