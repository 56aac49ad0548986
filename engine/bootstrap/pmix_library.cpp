// SPDX-License-Identifier: Apache-2.0
// Implements Pmix over libpmix, which is loaded on demand. Other launchers start most jobs, and
// hosts without PMIx run the same command.
//
// Fences and gets use the calls with a callback, and this thread waits for the callback itself.
// Launchers differ in whether they respect PMIX_TIMEOUT (Open MPI 4.1 ignores it for a fence). The
// callback and the waiting thread share the Answer, so a late callback still finds it.
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include "engine/bootstrap/pmix.hpp"
#include "engine/bootstrap/pmix_abi.hpp"

namespace hawser::engine {
namespace {

constexpr const char* kLibrary = "libpmix.so.2";      // of PMIx 2 to 5
constexpr std::uint32_t kLauncherTimeoutMs = 20'000;  // for calls that need no other rank

// The result that a callback delivers.
class Answer {
 public:
  static void done(pmix::Status status, void* context) { deliver(status, nullptr, context); }
  static void got(pmix::Status status, pmix::Value* value, void* context) {
    deliver(status, value, context);
  }

  // Returns false if no callback came in time.
  [[nodiscard]] bool wait(std::uint32_t timeout_ms) {
    std::unique_lock lock(mutex_);
    return came_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [this] { return is_here_; });
  }
  [[nodiscard]] pmix::Status status() const { return status_; }
  [[nodiscard]] const std::optional<std::string>& text() const { return text_; }
  [[nodiscard]] const std::optional<std::uint32_t>& number() const { return number_; }

 private:
  // Runs in a thread of the library. The library also owns the value.
  static void deliver(pmix::Status status, const pmix::Value* value, void* context) {
    const std::unique_ptr<std::shared_ptr<Answer>> held(
        static_cast<std::shared_ptr<Answer>*>(context));
    Answer& answer = **held;
    const std::lock_guard lock(answer.mutex_);
    answer.status_ = status;
    if (status == pmix::kSuccess && value != nullptr) answer.keep(*value);
    answer.is_here_ = true;
    answer.came_.notify_one();
  }

  void keep(const pmix::Value& value) {
    switch (value.type) {
      case pmix::kString:
        if (value.text != nullptr) text_ = value.text;
        break;
      case pmix::kUint16: number_ = value.uint16; break;
      case pmix::kUint32: number_ = value.uint32; break;
      case pmix::kInt: number_ = static_cast<std::uint32_t>(std::max(0, value.integer)); break;
      case pmix::kSize: number_ = static_cast<std::uint32_t>(value.size); break;
      case pmix::kUint64: number_ = static_cast<std::uint32_t>(value.uint64); break;
      default: break;  // another type: as if the value were unknown
    }
  }

  std::mutex mutex_;
  std::condition_variable came_;
  bool is_here_ = false;
  pmix::Status status_ = pmix::kSuccess;
  std::optional<std::string> text_;
  std::optional<std::uint32_t> number_;
};

// Never unloaded, because the library's threads may still run.
class Library : public Pmix {
 public:
  Library() {
    handle_ = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) {
      const char* const why = ::dlerror();
      throw PmixError(std::string("dlopen(") + kLibrary + ")",
                      std::string(why != nullptr ? why : "failed") +
                          "; PMIX_RANK is set, so a PMIx launcher started this process: install "
                          "the library (Debian: libpmix2) or name its folder in LD_LIBRARY_PATH, "
                          "or set HAWSER_RANK, HAWSER_SIZE and HAWSER_RENDEZVOUS");
    }
    find(init_, "PMIx_Init");
    find(put_, "PMIx_Put");
    find(commit_, "PMIx_Commit");
    find(fence_, "PMIx_Fence_nb");
    find(get_, "PMIx_Get_nb");
    find(finalize_, "PMIx_Finalize");
    find(error_string_, "PMIx_Error_string");
  }

  std::uint32_t init() override {
    check("PMIx_Init", init_(&self_, nullptr, 0),
          "; PMIX_RANK is set: check that the launcher that set it still runs");
    return self_.rank;
  }

  std::optional<std::uint32_t> number_of_job(const std::string& key) override {
    pmix::Process job = self_;
    job.rank = pmix::kWildcardRank;
    return number(job, key);
  }
  std::optional<std::uint32_t> number_of_process(const std::string& key) override {
    return number(self_, key);
  }

  void put(const std::string& key, const std::string& text) override {
    std::string copy = text;
    pmix::Value value{};
    value.type = pmix::kString;
    value.text = copy.data();
    check("PMIx_Put", put_(pmix::kGlobalScope, key.c_str(), &value), "");
    check("PMIx_Commit", commit_(), "");
  }

  bool fence(std::uint32_t timeout_ms) override {
    pmix::Info collect{};
    std::copy_n(pmix::kCollectData, std::char_traits<char>::length(pmix::kCollectData),
                collect.key.begin());
    collect.value.type = pmix::kBool;
    collect.value.flag = true;
    const auto answer = std::make_shared<Answer>();
    auto held = std::make_unique<std::shared_ptr<Answer>>(answer);
    const pmix::Status status = fence_(nullptr, 0, &collect, 1, Answer::done, held.get());
    if (status == pmix::kOperationSucceeded) return true;
    check("PMIx_Fence", status, "");
    static_cast<void>(held.release());  // the callback frees it
    if (!answer->wait(timeout_ms)) return false;
    check("PMIx_Fence", answer->status(), "; a rank may have ended before this call");
    return true;
  }

  std::optional<std::string> get(std::uint32_t rank, const std::string& key,
                                 std::uint32_t timeout_ms) override {
    pmix::Process process = self_;
    process.rank = rank;
    const auto answer = ask(process, key, timeout_ms);
    if (!answer) return {};
    check("PMIx_Get(" + key + ")", answer->status(), "; rank 0 may have ended");
    return answer->text().value_or("");
  }

  void finalize() noexcept override { static_cast<void>(finalize_(nullptr, 0)); }

 private:
  template <class Function>
  void find(Function& function, const char* name) {
    void* const symbol = ::dlsym(handle_, name);
    if (symbol == nullptr) {
      throw PmixError(name, std::string("the symbol is missing in ") + kLibrary +
                                "; check that this library is PMIx");
    }
    function = reinterpret_cast<Function>(symbol);
  }

  void check(const std::string& call, pmix::Status status, const char* advice) const {
    if (status == pmix::kSuccess) return;
    const char* const name = error_string_(status);
    throw PmixError(call, std::string(name != nullptr ? name : "failed") + " (" +
                              std::to_string(status) + ")" + advice);
  }

  // Returns null if no answer came in time.
  std::shared_ptr<Answer> ask(const pmix::Process& process, const std::string& key,
                              std::uint32_t timeout_ms) {
    auto answer = std::make_shared<Answer>();
    auto held = std::make_unique<std::shared_ptr<Answer>>(answer);
    check("PMIx_Get(" + key + ")", get_(&process, key.c_str(), nullptr, 0, Answer::got, held.get()),
          "");
    static_cast<void>(held.release());  // the callback frees it
    if (!answer->wait(timeout_ms)) return nullptr;
    return answer;
  }

  std::optional<std::uint32_t> number(const pmix::Process& process, const std::string& key) {
    const auto answer = ask(process, key, kLauncherTimeoutMs);
    if (!answer) throw PmixError("PMIx_Get(" + key + ")", "the launcher does not answer");
    if (answer->status() != pmix::kSuccess) return {};  // most often: not found
    return answer->number();
  }

  void* handle_ = nullptr;
  pmix::Init init_ = nullptr;
  pmix::Put put_ = nullptr;
  pmix::Commit commit_ = nullptr;
  pmix::Fence fence_ = nullptr;
  pmix::Get get_ = nullptr;
  pmix::Finalize finalize_ = nullptr;
  pmix::ErrorString error_string_ = nullptr;
  pmix::Process self_{};
};

}  // namespace

std::unique_ptr<Pmix> load_pmix() { return std::make_unique<Library>(); }

}  // namespace hawser::engine
