// The routes' work, without sockets: what a request's head is answered at once, and what its body becomes.
//
// All of it belongs to the I/O thread, but for the replies, which come from the scheduler's threads.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/engine.h"
#include "engine/scheduler.h"
#include "server/access_log.h"
#include "server/confidence.h"
#include "server/failure.h"
#include "server/http_message.h"
#include "server/keys.h"
#include "server/metrics.h"
#include "server/request_check.h"
#include "server/routes.h"

namespace clef::server {

struct ServiceOptions {
  std::string model_name;                             // what `model` may say, beside the aliases
  std::vector<std::string> aliases = {"jev-latest"};  // TypeSafe's own clients ask for this one
  bool any_model = false;                             // `model` may say anything
  std::string release_date = "1970-01-01";            // of the model, for /v1/models
  std::string version;                                // of this program
  Confidence confidence = Confidence::max;
  ShapeLimits shape;
  std::size_t max_body_bytes = 8 << 20;  // also of one line of a batch, and when decompressed
  std::int64_t max_batch_window = 16;    // lines of one batch at work at once
  std::chrono::milliseconds request_timeout{60'000};
  std::chrono::milliseconds stall_limit{120'000};  // a pass that runs longer makes the device unhealthy
  std::vector<std::string> cors_origins;           // "*" is all
  bool open_metrics = false;                       // /metrics needs no key
  bool serves_web = true;                          // the page at "/"
};

// The engine as the service sees it: so tests can hold it, and the fuzzer can do without.
struct Backend {
  std::function<Result<Engine::Prepared>(Json)> prepare;  // on any thread
  Scheduler* scheduler = nullptr;
  std::string device_name;
};

// One request from its head to its log line.
struct Exchange {
  using Clock = std::chrono::steady_clock;
  std::string id;  // x-typesafe-request-id
  RequestHead head;
  std::string remote;
  std::string client;  // whose turn it is when there are no keys: an address, see Connection
  const Route* route = nullptr;
  std::string path_model;  // that the path names
  Wire wire = Wire::systemone;
  Confidence confidence = Confidence::max;
  bool wants_logits = false;
  bool is_gzip = false;
  std::vector<Field> cors;  // fields that the answer carries for its page
  std::shared_ptr<KeyUse> key;
  std::optional<Digest> key_digest;  // of the key presented, if one was needed
  bool holds_key = false;            // one of its concurrency
  Clock::time_point started;
  Clock::time_point deadline;
  AccessLine line;  // filled on the way
};

struct AnswerStats {
  std::int64_t input_tokens = 0, questions = 0, pass_requests = 0;
  double queue_seconds = 0, pass_seconds = 0;
};

// One answer, of a request or of a line of a batch.
struct Answered {
  std::optional<Failure> failure;
  std::string text;  // compact JSON, without a failure
  AnswerStats stats;
};

class Service {
 public:
  explicit Service(ServiceOptions options);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  const ServiceOptions& options() const { return options_; }
  KeyRing& keys() { return keys_; }
  AccessLog& access_log() { return access_log_; }
  Metrics& metrics() { return metrics_; }

  enum class Phase : std::uint8_t {
    loading,
    ready,
    leaving,   // not ready any more, and still serving: those who watch have time to notice
    draining,  // no new connections; each that is open is answered once more at most
  };
  // Loading ends with a backend, which must outlive the last request.
  void start(Backend backend);
  void set_phase(Phase phase) { phase_ = phase; }
  Phase phase() const { return phase_; }

  // From the scheduler's device thread.
  void observe(const PassReport& pass);

  std::shared_ptr<Exchange> open(RequestHead head, std::string remote, std::string client = "");
  // For what is no request: the id and the time alone.
  std::shared_ptr<Exchange> open_malformed(std::string remote);

  // The answer, when the head is enough for one. Else the body is wanted.
  std::optional<Response> admit(Exchange& exchange);

  // The most bytes that the body may have; a batch has no limit but that of its lines.
  std::optional<std::size_t> body_limit(const Exchange& exchange) const;

  // Whether a body of so many bytes would find room in the queue now.
  bool has_room(std::size_t bytes) const { return backend_->scheduler->has_room(bytes); }
  // Whether the key that let the exchange in still would: keys may be taken away while a batch runs.
  bool is_still_known(const Exchange& exchange) const;

  // Starts on a complete body, or on the line `index` of a batch. `reply` comes from a thread of the scheduler, unless
  // the ticket is cancelled first.
  using Reply = std::function<void(Answered)>;
  std::variant<Scheduler::Ticket, Failure> submit(const Exchange& exchange, std::string body, Reply reply,
                                                  std::optional<std::int64_t> index = {});

  // Notes what was answered, and makes it the response.
  Response respond(Exchange& exchange, Answered answered);
  Response refuse(const Exchange& exchange, const Failure& failure) const;
  // The fields that every answer of this exchange carries.
  void decorate(const Exchange& exchange, Response& response) const;

  // The end, with the status sent (499: the client was gone): gives back what the exchange holds, logs and counts.
  void close(Exchange& exchange, int status);

  // Null when the device answers; else what is wrong.
  struct Trouble {
    std::string_view device_state;  // "failing", "lost" or "stalled"
    std::string reason;
  };
  std::optional<Trouble> trouble() const;
  bool is_ready() const;

 private:
  std::optional<Response> admit_work(Exchange& exchange);
  std::optional<Failure> read_fields(Exchange& exchange) const;
  std::optional<Failure> check_origin(Exchange& exchange) const;
  std::optional<Failure> authorize(Exchange& exchange) const;
  Response answer_options(const Exchange& exchange) const;
  Response answer_get(const Exchange& exchange);
  bool serves(const std::string& model) const;
  std::chrono::milliseconds time_to_drain() const;

  ServiceOptions options_;
  KeyRing keys_;
  AccessLog access_log_;
  Metrics metrics_;
  std::optional<Backend> backend_;
  Phase phase_ = Phase::loading;
  std::atomic<double> tokens_per_second_ = 0;  // of recent passes
};

}  // namespace clef::server
