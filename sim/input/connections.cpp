// SPDX-License-Identifier: Apache-2.0
#include "sim/input/connections.hpp"

#include <algorithm>
#include <unordered_map>

#include "sim/input/characters.hpp"
#include "sim/input/text.hpp"
#include "sim/traffic/triggers.hpp"

namespace hawser::fabric {

namespace {

constexpr std::uint64_t kMostNodes = 1 << 20;
constexpr std::uint64_t kMostConnections = 8'000'000;
constexpr std::uint64_t kMostId = 0xffffffffu;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40;
constexpr std::uint64_t kLatestStart = 1'000'000'000'000'000;  // ps: 1000 s
constexpr std::int64_t kPerPicosecond = 1000;                  // as Text::thousandths counts
using Words = std::vector<std::string_view>;

class ConnectionReader {
 public:
  ConnectionReader(const std::string& name, std::string_view content) : text_(name, content) {}

  ConnectionMatrix read() {
    for (std::size_t line = 1; line <= text_.lines(); ++line) {
      const Words words = text_.words(line);
      if (words.empty()) continue;
      if (words[0].find("->") != std::string_view::npos) {
        connection(line, words);
      } else if (words[0] == "trigger") {
        trigger(line, words);
      } else {
        head(line, words);
      }
    }
    check();
    return std::move(matrix_);
  }

 private:
  struct Count {
    std::uint64_t value = 0;
    std::size_t line = 0;
  };
  // Where a connection's number appeared first.
  struct Said {
    std::size_t line = 0;
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    bool is_message = false;
  };

  void head(std::size_t line, const Words& words) {
    Count* const count = words[0] == "Nodes"         ? &nodes_
                         : words[0] == "Connections" ? &connections_
                         : words[0] == "Triggers"    ? &triggers_
                                                     : nullptr;
    if (words[0] == "failure" || words[0] == "Failures") {
      text_.fail(line, "this file can't describe failures: describe them in the experiment's plan");
    }
    if (count == nullptr) {
      text_.fail(line, "a line begins with Nodes, Connections, Triggers, A->B or trigger, not " +
                           quoted(words[0]));
    }
    if (words.size() != 2) text_.fail(line, std::string(words[0]) + " is followed by one number");
    if (!matrix_.connections.empty() || !matrix_.triggers.empty() || count->line > 0) {
      text_.fail(line, std::string(words[0]) + " is given once, before the first connection");
    }
    const std::uint64_t most = count == &nodes_ ? kMostNodes : kMostConnections;
    *count = {text_.number(line, words[1], std::string(words[0]), 0, most), line};
  }

  std::uint32_t small(std::size_t line, std::string_view word, const std::string& what,
                      std::uint64_t least, std::uint64_t most) const {
    return static_cast<std::uint32_t>(text_.number(line, word, what, least, most));
  }

  void connection(std::size_t line, const Words& words) {
    if (nodes_.line == 0 || nodes_.value == 0) {
      text_.fail(line, "Nodes must come before the first connection");
    }
    const std::size_t arrow = words[0].find("->");
    Connection one;
    one.line = static_cast<std::uint32_t>(line);
    one.from = small(line, words[0].substr(0, arrow), "the sending node", 0, nodes_.value - 1);
    one.to = small(line, words[0].substr(arrow + 2), "the receiving node", 0, nodes_.value - 1);
    if (one.from == one.to) text_.fail(line, "a node that sends to itself needs no fabric");
    Words seen;
    bool is_message = false;
    for (std::size_t i = 1; i < words.size();) {
      const std::string_view key = words[i++];
      if (std::ranges::count(seen, key) > 0) text_.fail(line, quoted(key) + " is given twice");
      seen.push_back(key);
      if (key == "msg") {
        is_message = true;
        if (i == words.size() || !is_digit(words[i].front())) continue;
        static_cast<void>(text_.number(line, words[i++], "msg", 1, kMostId));
        continue;
      }
      if (i == words.size()) text_.fail(line, quoted(key) + " has no value");
      attribute(line, key, words[i++], one);
    }
    const bool has_start = std::ranges::count(seen, "start") > 0;
    if (one.id != 0) need_new_id(one, is_message);
    if (one.bytes == 0) text_.fail(line, "size is missing");
    if (has_start == (one.trigger != 0)) {
      text_.fail(line, has_start ? "both start and trigger: leave one out"
                                 : "neither start nor trigger: it would never start");
    }
    matrix_.connections.push_back(one);
  }

  // Messages of one connection share its number.
  void need_new_id(const Connection& one, bool is_message) {
    const auto [first, is_new] =
        id_said_.emplace(one.id, Said{one.line, one.from, one.to, is_message});
    if (is_new) return;
    const Said& said = first->second;
    if (is_message && said.is_message && said.from == one.from && said.to == one.to) return;
    text_.fail(one.line, "id " + std::to_string(one.id) + " is used before, in line " +
                             std::to_string(said.line));
  }

  void attribute(std::size_t line, std::string_view key, std::string_view word, Connection& one) {
    if (key == "size") {
      one.bytes = text_.number(line, word, "size", 0, kMostBytes);
      if (one.bytes == 0) {
        text_.fail(line,
                   "size 0 makes an endless connection in htsim, but a run must end: give the "
                   "bytes that it sends");
      }
    } else if (key == "start") {
      one.start.ps = text_.thousandths(line, word, "start", kLatestStart) / kPerPicosecond;
    } else if (key == "id") {
      one.id = small(line, word, "id", 1, kMostId);
    } else if (key == "trigger") {
      one.trigger = small(line, word, "trigger", 1, kMostId);
    } else if (key == "send_done_trigger") {
      one.when_sent = small(line, word, "send_done_trigger", 1, kMostId);
    } else if (key == "recv_done_trigger") {
      one.when_received = small(line, word, "recv_done_trigger", 1, kMostId);
    } else if (key == "prio") {
      static_cast<void>(text_.number(line, word, "prio", 0, kMostId));
    } else {
      text_.fail(line, quoted(key) +
                           " is not a field of a connection; known are id, start, trigger, size, "
                           "send_done_trigger, recv_done_trigger, prio, msg");
    }
  }

  void trigger(std::size_t line, const Words& words) {
    Trigger one;
    std::size_t kinds = 0;
    for (std::size_t i = 1; i < words.size(); ++i) {
      const std::string key(words[i]);
      if (key == "id" || key == "count") {
        if (i + 1 == words.size()) text_.fail(line, quoted(key) + " has no value");
        std::uint32_t& value = key == "id" ? one.id : one.count;
        if (value != 0) text_.fail(line, quoted(key) + " is given twice");
        value = small(line, words[++i], key, 1, kMostId);
      } else if (key == "oneshot" || key == "multishot" || key == "barrier") {
        ++kinds;
        one.kind = key == "oneshot"     ? Trigger::Kind::oneshot
                   : key == "multishot" ? Trigger::Kind::multishot
                                        : Trigger::Kind::barrier;
      } else {
        text_.fail(line, quoted(key) + " is not a field of a trigger");
      }
    }
    if (one.id == 0) text_.fail(line, "a trigger needs an id");
    if (kinds != 1) text_.fail(line, "a trigger is oneshot, multishot or barrier");
    if ((one.kind == Trigger::Kind::barrier) != (one.count > 0)) {
      text_.fail(line, "a barrier has a count, and nothing else has");
    }
    const auto [first, is_new] = line_of_trigger_.emplace(one.id, line);
    if (!is_new) {
      text_.fail(line, "trigger " + std::to_string(one.id) + " is described before, in line " +
                           std::to_string(first->second));
    }
    matrix_.triggers.push_back(one);
  }

  void check_count(const Count& said, std::size_t found, const std::string& what) const {
    if (said.value == found) return;
    text_.fail(std::max<std::size_t>(said.line, 1),
               what + " announces " + std::to_string(said.value) + ", but " +
                   std::to_string(found) + " follow: is the file whole?");
  }

  void check() {
    if (nodes_.line == 0) text_.fail(1, "Nodes is missing");
    matrix_.nodes = static_cast<std::uint32_t>(nodes_.value);
    check_count(connections_, matrix_.connections.size(), "Connections");
    check_count(triggers_, matrix_.triggers.size(), "Triggers");
    for (const Connection& one : matrix_.connections) {
      for (const std::uint32_t id : {one.trigger, one.when_sent, one.when_received}) {
        if (id != 0 && !line_of_trigger_.contains(id)) {
          text_.fail(one.line, "trigger " + std::to_string(id) + " is not described in the file");
        }
      }
    }
    if (const auto one = waits_for_ever(matrix_)) {
      const Connection& stuck = matrix_.connections[*one];
      text_.fail(stuck.line, "this connection would never start: trigger " +
                                 std::to_string(stuck.trigger) +
                                 " does not fire often enough, or only after this");
    }
  }

  Text text_;
  Count nodes_, connections_, triggers_;
  std::unordered_map<std::uint32_t, Said> id_said_;
  std::unordered_map<std::uint32_t, std::size_t> line_of_trigger_;
  ConnectionMatrix matrix_;
};

}  // namespace

ConnectionMatrix read_connections(const std::string& name, std::string_view content) {
  return ConnectionReader(name, content).read();
}

}  // namespace hawser::fabric
