// SPDX-License-Identifier: Apache-2.0
// A base for doubles of the public endpoint: every call answers that it can't be had. A test
// overrides the calls that its subject makes.
#pragma once

#include <string>
#include <vector>

#include "hawser/engine.hpp"

namespace hawser::test {

class EndpointDouble : public Endpoint {
 public:
  [[nodiscard]] const Address& address() const noexcept override { return no_address_; }
  [[nodiscard]] Status connect(std::span<const std::byte>, PeerId&) override {
    return Status::unsupported;
  }
  [[nodiscard]] Status send(const SendRequest&, OperationId&) override {
    return Status::unsupported;
  }
  [[nodiscard]] Status inject(const SendRequest&) override { return Status::unsupported; }
  [[nodiscard]] Status receive(const ReceiveRequest&, OperationId&) override {
    return Status::unsupported;
  }
  [[nodiscard]] Status probe(const ProbeRequest&, Envelope&) override {
    return Status::unsupported;
  }
  [[nodiscard]] Status claim(const ProbeRequest&, Envelope&, MessageId&) override {
    return Status::unsupported;
  }
  [[nodiscard]] Status receive_claimed(MessageId, const ClaimedRequest&, OperationId&) override {
    return Status::unsupported;
  }
  [[nodiscard]] Status put_back(MessageId) override { return Status::unsupported; }
  [[nodiscard]] Status expose(const ExposeRequest&, RegionId&) override {
    return Status::unsupported;
  }
  [[nodiscard]] Status region_key(RegionId, RegionKey&) const override {
    return Status::unsupported;
  }
  [[nodiscard]] Status region_stats(RegionId, RegionStats&) const override {
    return Status::unsupported;
  }
  [[nodiscard]] Status withdraw(RegionId, std::uint64_t, OperationId&) override {
    return Status::unsupported;
  }
  [[nodiscard]] Status write(const WriteRequest&, OperationId&) override {
    return Status::unsupported;
  }
  [[nodiscard]] Status read(const ReadRequest&, OperationId&) override {
    return Status::unsupported;
  }
  [[nodiscard]] Status atomic(const AtomicRequest&, OperationId&) override {
    return Status::unsupported;
  }
  [[nodiscard]] Status flush_channel(const FlushRequest&, OperationId&) override {
    return Status::unsupported;
  }
  [[nodiscard]] Status cancel(OperationId) override { return Status::unsupported; }
  void flush() override {}
  std::size_t poll(std::span<Completion>) override { return 0; }
  std::size_t wait(std::span<Completion> completions, std::uint64_t) override {
    return poll(completions);
  }
  [[nodiscard]] int fd() const noexcept override { return -1; }
  [[nodiscard]] Status disconnect(PeerId) override { return Status::unsupported; }
  void close() override {}
  [[nodiscard]] EndpointStats stats() const override { return {}; }
  [[nodiscard]] std::vector<NicStats> nic_stats() const override { return {}; }
  [[nodiscard]] Status peer_stats(PeerId, PeerStats&) const override { return Status::unsupported; }
  [[nodiscard]] std::vector<Verdict> verdicts() const override { return {}; }
  std::size_t poll_events(std::span<Event>) override { return 0; }
  [[nodiscard]] Status register_memory(const void*, std::uint64_t, RegistrationId&,
                                       std::string*) override {
    return Status::unsupported;
  }
  [[nodiscard]] Status register_dmabuf(const DmabufRange&, RegistrationId&, std::string*) override {
    return Status::unsupported;
  }
  [[nodiscard]] Status deregister_memory(RegistrationId, std::string*) override {
    return Status::unsupported;
  }
  void release_memory(RegistrationId) override {}

 private:
  Address no_address_{};
};

}  // namespace hawser::test
