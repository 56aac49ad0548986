// SPDX-License-Identifier: Apache-2.0
#include "proto/session/session_keys.hpp"

#include <sodium.h>

#include <cstring>
#include <span>

#include "proto/base/assert.hpp"

namespace hawser::proto {

namespace {

// Each hash input begins with its purpose, so that no cookie can ever be a token.
enum class Purpose : std::uint64_t { key = 1, token = 2, cookie = 3, name = 4, region = 5 };

struct TokenInput {
  Purpose purpose;
  std::uint64_t counter;
  std::uint64_t peer_id;
};
struct CookieInput {
  Purpose purpose;
  std::int64_t period;
  std::uint64_t sender_id;
  std::uint64_t epoch;
  std::uint64_t counter;
  std::uint64_t token;
  std::uint64_t verified_epoch;
  std::uint64_t verified_counter;
  std::uint64_t present_epoch;
  std::uint64_t present_counter;
  NicAddress address;
};
struct RegionInput {
  Purpose purpose;
  std::uint64_t count;
};
struct NameInput {
  Purpose purpose;
};
struct KeyInput {
  Purpose purpose;
  std::uint64_t seed;
};
static_assert(sizeof(CookieInput) == 10 * 8 + sizeof(NicAddress), "padding would not be hashed");

template <class Input>
void hash(std::span<unsigned char> out, const Input& input, std::span<const unsigned char> key) {
  unsigned char bytes[sizeof(Input)];
  std::memcpy(bytes, &input, sizeof input);
  const int failed = crypto_generichash(out.data(), out.size(), bytes, sizeof bytes,
                                        key.empty() ? nullptr : key.data(), key.size());
  HAWSER_ASSERT(failed == 0);
}

// 0 stands for "none" in every field that holds one.
template <class Input>
std::uint64_t hash_to_number(const Input& input, std::span<const unsigned char> key) {
  std::array<unsigned char, crypto_generichash_BYTES_MIN> digest;
  hash(digest, input, key);
  std::uint64_t number = 0;
  std::memcpy(&number, digest.data(), sizeof number);
  return number == 0 ? 1 : number;
}

}  // namespace

SessionKeys::SessionKeys(std::uint64_t seed) { hash(key_, KeyInput{Purpose::key, seed}, {}); }

std::uint64_t SessionKeys::token(std::uint32_t counter, std::uint64_t peer_id) const {
  return hash_to_number(TokenInput{Purpose::token, counter, peer_id}, key_);
}

std::uint32_t SessionKeys::name_mask() const {
  return static_cast<std::uint32_t>(hash_to_number(NameInput{Purpose::name}, key_)) >> 1;
}

std::uint64_t SessionKeys::region_secret(std::uint64_t count) const {
  return hash_to_number(RegionInput{Purpose::region, count}, key_);
}

std::uint64_t SessionKeys::cookie(const wire::SessionPart& hello, const NicAddress& address,
                                  const KnownOfSender& known, Time now) const {
  return cookie_of(hello, address, known, now.ns / kCookiePeriod.ns);
}

bool SessionKeys::is_cookie_good(const wire::SessionPart& hello, const NicAddress& address,
                                 const KnownOfSender& known, Time now) const {
  if (hello.cookie == 0) return false;
  const std::int64_t period = now.ns / kCookiePeriod.ns;
  return hello.cookie == cookie_of(hello, address, known, period) ||
         hello.cookie == cookie_of(hello, address, known, period - 1);
}

std::uint64_t SessionKeys::cookie_of(const wire::SessionPart& hello, const NicAddress& address,
                                     const KnownOfSender& known, std::int64_t period) const {
  return hash_to_number(
      CookieInput{Purpose::cookie, period, hello.sender_id, hello.epoch, hello.counter,
                  hello.my_token, known.verified.epoch, known.verified.counter, known.present.epoch,
                  known.present.counter, address},
      key_);
}

}  // namespace hawser::proto
