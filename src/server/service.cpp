#include "server/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <random>
#include <utility>

#include "base/check.h"
#include "record/respond.h"
#include "server/inflate.h"
#include "server/openai_wire.h"
#include "server/openapi.h"
#include "server/origin.h"
#include "server/web_assets.h"
#include "text/utf8.h"

namespace clef::server {
namespace {

using std::chrono::milliseconds;

constexpr std::string_view kPrefixCacheField = "x-clef-prefix-cache";
constexpr std::string_view kMediaMembers[] = {"images", "videos", "audio"};
constexpr std::size_t kMaxCacheKeyBytes = 64;
constexpr std::size_t kMaxLoggedPathBytes = 256;
constexpr std::int64_t kFailingPasses = 3;   // in a row: one may be the request's fault
constexpr milliseconds kComeBackSoon{1000};  // to those who come while nothing is served

std::string new_request_id() {
  static thread_local std::random_device entropy;
  std::string id = "req_";
  for (int i = 0; i < 4; ++i) id += fmt::format("{:08x}", entropy());
  return id;
}

bool equals_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
    return lower(x) == lower(y);
  });
}

// Paths are the client's bytes; a log line is JSON.
std::string printable(std::string_view text) {
  std::string safe(text.substr(0, kMaxLoggedPathBytes));
  for (char& c : safe) {
    if (static_cast<unsigned char>(c) >= 0x7f || static_cast<unsigned char>(c) < 0x20) c = '?';
  }
  return safe;
}

bool is_cache_key(std::string_view key) {
  return !key.empty() && key.size() <= kMaxCacheKeyBytes && std::all_of(key.begin(), key.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '.' || c == '_' ||
           c == '-';
  });
}

std::string allowed_methods(const Route* route) {
  if (route == nullptr) return "GET, HEAD, POST, OPTIONS";
  return route->method == "GET" ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
}

// What a job is asked and what it comes to, between its threads.
struct Work {
  std::string body;  // as received; with pictures, which may have to wait, kept until prepared: Json is far larger
  bool is_gzip = false;
  std::size_t max_body_bytes = 0;
  Wire wire = Wire::systemone;
  std::string path_model;
  ShapeLimits shape;
  Confidence confidence = Confidence::max;
  bool wants_logits = false;
  std::optional<std::int64_t> index;
  std::function<bool(const std::string&)> serves;
  std::string served;  // names for the refusal
  Json parsed;         // once read
  bool is_read = false, has_media = false;
  std::optional<Failure> failure;
  OpenAiRequest openai;
};

Failure failure_of_gzip(const Error& error) {
  if (error.code == Errc::bad_request) return {.kind = Kind::malformed, .message = error.message};
  return failure_of(error);
}

// The body as the engine takes it, once its shape is right.
std::optional<Failure> read_body(Work& work, Json& body) {
  std::optional<std::string> unpacked;
  if (work.is_gzip) {
    auto text = gunzip(work.body, work.max_body_bytes);
    if (!text) return failure_of_gzip(text.error());
    unpacked = std::move(text).value();
  }
  auto parsed = parse_json(unpacked ? *unpacked : work.body);
  unpacked.reset();
  if (!parsed) return failure_of(parsed.error());
  body = std::move(parsed).value();
  if (work.wire == Wire::openai) {
    if (auto failure = read_openai(std::move(body), work.shape, work.openai)) return failure;
    body = std::move(work.openai.body);
  }
  if (work.wire == Wire::workers && body.if_object() != nullptr && body.find("model") == nullptr) {
    body.if_object()->emplace_back("model", work.path_model);
  }
  auto violations = check_shape(body, work.shape);
  if (!violations.empty()) return invalid(std::move(violations));
  const std::string& model = *body.find("model")->if_string();
  if (work.wire != Wire::workers && !work.serves(model)) {
    return Failure{
        .kind = Kind::unknown_model,
        .message = fmt::format("model: '{}' is not served here; served: {}", utf8_prefix(model, 200), work.served)};
  }
  return std::nullopt;
}

bool has_media(const Json& body) {
  return std::any_of(std::begin(kMediaMembers), std::end(kMediaMembers), [&](std::string_view name) {
    const Json* list = body.find(name);
    return list != nullptr && list->is_truthy();
  });
}

// Once, however often it is called.
void read_once(Work& work) {
  if (std::exchange(work.is_read, true)) return;
  work.failure = read_body(work, work.parsed);
  work.has_media = !work.failure && has_media(work.parsed);
  if (!work.has_media) work.body = {};
}

// Keeps the text alone.
void forget_what_was_read(Work& work) {
  work.parsed = {};
  work.openai = {};
  work.is_read = false;
}

Json write_answer(const Work& work, const Scheduler::Outcome& outcome) {
  const auto& [request, record] = outcome.prepared;
  Json response = clef::respond(request, record, outcome.decisions);
  if (work.confidence != Confidence::max) set_confidence(response, request, outcome.decisions, work.confidence);
  if (work.wire == Wire::openai) return openai_response(work.openai, response);
  Json::Object& members = *response.if_object();
  if (work.wants_logits) members.emplace_back("x_logits", logits_by_option(record, outcome.decisions));
  if (record.truncated_state_tokens > 0) {
    members.emplace_back("x_truncated_state_tokens", record.truncated_state_tokens);
  }
  if (work.index) members.insert(members.begin(), {"index", *work.index});
  if (work.wire == Wire::systemone) return response;
  return Json::Object{
      {"result", std::move(response)}, {"success", true}, {"errors", Json::Array{}}, {"messages", Json::Array{}}};
}

Answered answer(const Work& work, Result<Scheduler::Outcome> result) {
  Answered answered;
  if (!result) {
    answered.failure = work.failure ? *work.failure : failure_of(result.error());
    return answered;
  }
  answered.stats = {.input_tokens = std::ssize(result->prepared.record.input_ids),
                    .questions = std::ssize(result->prepared.record.questions),
                    .pass_requests = result->pass_requests,
                    .queue_seconds = result->queue_seconds,
                    .pass_seconds = result->pass_seconds};
  try {
    answered.text = to_compact_json(write_answer(work, *result));
  } catch (const std::bad_alloc&) {
    answered.failure = Failure{.kind = Kind::internal, .message = "the host is out of memory"};
  }
  return answered;
}

}  // namespace

Service::Service(ServiceOptions options) : options_(std::move(options)) {}
Service::~Service() = default;

void Service::start(Backend backend) {
  backend_ = std::move(backend);
  if (phase_ == Phase::loading) phase_ = Phase::ready;
}

void Service::observe(const PassReport& pass) {
  metrics_.count_pass(pass);
  if (pass.has_failed || pass.seconds <= 0) return;
  const double now = static_cast<double>(pass.tokens) / pass.seconds, before = tokens_per_second_;
  tokens_per_second_ = before == 0 ? now : 0.9 * before + 0.1 * now;
}

std::shared_ptr<Exchange> Service::open_malformed(std::string remote) {
  auto exchange = std::make_shared<Exchange>();
  exchange->id = new_request_id();
  exchange->remote = std::move(remote);
  exchange->started = Exchange::Clock::now();
  exchange->deadline = exchange->started + options_.request_timeout;
  exchange->confidence = options_.confidence;
  return exchange;
}

std::shared_ptr<Exchange> Service::open(RequestHead head, std::string remote, std::string client) {
  auto exchange = open_malformed(std::move(remote));
  exchange->client = std::move(client);
  exchange->head = std::move(head);
  Match match = find_route(exchange->head.path);
  exchange->route = match.route;
  if (match.route == nullptr && options_.serves_web && find_web_asset(exchange->head.path) != nullptr) {
    exchange->route = &kWebRoute;
  }
  exchange->path_model = std::move(match.model);
  exchange->wire = wire_of(exchange->head.path);
  return exchange;
}

std::optional<Response> Service::admit(Exchange& exchange) {
  const RequestHead& head = exchange.head;
  if (auto failure = check_origin(exchange)) return refuse(exchange, *failure);
  const bool is_everything = head.path == "*" || head.path.empty();
  if (exchange.route == nullptr && !(head.method == "OPTIONS" && is_everything)) {
    return refuse(exchange,
                  {.kind = Kind::no_route, .message = fmt::format("nothing is served at {}", printable(head.path))});
  }
  if (head.method == "OPTIONS") return answer_options(exchange);
  const Route& route = *exchange.route;
  const bool is_method = head.method == route.method || (route.method == "GET" && head.method == "HEAD");
  if (!is_method) {
    Response response = refuse(exchange, {.kind = Kind::wrong_method, .message = fmt::format("use {}", route.method)});
    response.fields.emplace_back("Allow", allowed_methods(&route));
    return response;
  }
  if (auto failure = authorize(exchange)) return refuse(exchange, *failure);
  if (route.method == "GET") return answer_get(exchange);
  return admit_work(exchange);
}

// A page of another origin could otherwise use this machine through its reader's browser.
std::optional<Failure> Service::check_origin(Exchange& exchange) const {
  const std::string* origin = exchange.head.field("origin");
  if (origin == nullptr) return std::nullopt;
  const auto& allowed = options_.cors_origins;
  const bool is_any = std::find(allowed.begin(), allowed.end(), "*") != allowed.end();
  if (is_any || std::find(allowed.begin(), allowed.end(), *origin) != allowed.end()) {
    exchange.cors = {{"Access-Control-Allow-Origin", is_any ? "*" : *origin},
                     {"Access-Control-Expose-Headers", "x-typesafe-request-id, retry-after-ms, Retry-After"}};
    if (!is_any) exchange.cors.emplace_back("Vary", "Origin");
    return std::nullopt;
  }
  const std::string* host = exchange.head.field("host");
  const bool is_own = host != nullptr && (*origin == "http://" + *host || *origin == "https://" + *host);
  if (is_own && (!keys_.is_open() || is_fixed_host(*host))) return std::nullopt;
  return Failure{.kind = Kind::forbidden, .message = "pages of this origin may not use this server"};
}

Response Service::answer_options(const Exchange& exchange) const {
  Response response;
  response.status = 204;
  response.fields.emplace_back("Allow", allowed_methods(exchange.route));
  const RequestHead& head = exchange.head;
  if (exchange.cors.empty() || head.field("access-control-request-method") == nullptr) return response;
  response.fields.emplace_back("Access-Control-Allow-Methods", allowed_methods(exchange.route));
  response.fields.emplace_back("Access-Control-Max-Age", "600");
  // Any field will do: what a page may not do is settled by its origin and its key.
  if (const std::string* names = head.field("access-control-request-headers")) {
    const bool is_list = std::all_of(names->begin(), names->end(),
                                     [](char c) { return c == ' ' || c == ',' || is_token(std::string_view(&c, 1)); });
    if (is_list) response.fields.emplace_back("Access-Control-Allow-Headers", *names);
  }
  if (head.field("access-control-request-private-network") != nullptr) {
    response.fields.emplace_back("Access-Control-Allow-Private-Network", "true");
  }
  return response;
}

std::optional<Failure> Service::authorize(Exchange& exchange) const {
  const bool is_open = keys_.is_open() || !exchange.route->needs_key ||
                       (exchange.route->id == RouteId::metrics && options_.open_metrics);
  if (is_open) {
    exchange.key = keys_.anonymous();
    return std::nullopt;
  }
  constexpr std::string_view kScheme = "Bearer ";
  const std::string* field = exchange.head.field("authorization");
  if (field == nullptr) {
    return Failure{.kind = Kind::unauthorized, .message = "an API key is needed: Authorization: Bearer KEY"};
  }
  const bool is_bearer = exchange.head.count("authorization") == 1 && field->size() > kScheme.size() &&
                         equals_ignoring_case(std::string_view(*field).substr(0, kScheme.size()), kScheme);
  if (is_bearer) exchange.key_digest = digest_of(std::string_view(*field).substr(kScheme.size()));
  exchange.key = keys_.find(exchange.key_digest);
  if (exchange.key != nullptr) return std::nullopt;
  return Failure{.kind = Kind::unauthorized, .message = "this API key is not known"};
}

bool Service::is_still_known(const Exchange& exchange) const {
  return keys_.is_open() || !exchange.key_digest || keys_.find(exchange.key_digest) != nullptr;
}

Response Service::answer_get(const Exchange& exchange) {
  Response response;
  const auto status = [&](bool is_good, std::string_view word, const std::optional<Trouble>& trouble) {
    response.status = is_good ? 200 : 503;
    Json::Object body{{"status", std::string(word)}, {"model", options_.model_name}};
    if (backend_) {
      const bool is_running = backend_->scheduler->load().running_requests > 0;
      body.emplace_back("device", backend_->device_name);
      body.emplace_back("device_state", std::string(trouble ? trouble->device_state : is_running ? "running" : "idle"));
    }
    if (trouble) body.emplace_back("reason", trouble->reason);
    response.body = to_compact_json(body);
  };
  switch (exchange.route->id) {
    case RouteId::health: {
      const auto found = trouble();
      status(!found, found ? "failing" : phase_ == Phase::loading ? "loading" : "ok", found);
      break;
    }
    case RouteId::ready: {
      const auto found = trouble();
      const std::string_view word = phase_ == Phase::loading ? "loading"
                                    : phase_ != Phase::ready ? "draining"
                                    : found                  ? "failing"
                                                             : "ready";
      status(is_ready(), word, found);
      break;
    }
    case RouteId::models: {
      Json::Array listed, named;
      std::vector<std::string> names = options_.aliases;
      names.insert(names.begin(), options_.model_name);
      for (const std::string& name : names) {
        listed.emplace_back(Json::Object{{"id", name}, {"object", "model"}, {"created", 0}, {"owned_by", "cleffa"}});
        named.emplace_back(Json::Object{
            {"name", name},
            {"description",
             name == options_.model_name ? "served by cleffa" : fmt::format("another name of {}", options_.model_name)},
            {"release_date", options_.release_date}});
      }
      response.body =
          to_compact_json(Json::Object{{"object", "list"}, {"data", std::move(listed)}, {"models", std::move(named)}});
      break;
    }
    case RouteId::metrics:
      response.content_type = "text/plain; version=0.0.4; charset=utf-8";
      response.body = metrics_.text(backend_ ? backend_->scheduler->load() : Scheduler::Load{}, is_ready());
      break;
    case RouteId::version:
      response.body = to_compact_json(
          Json::Object{{"name", "cleffa"}, {"version", options_.version}, {"model", options_.model_name}});
      break;
    case RouteId::openapi:
      response.body = openapi_document(options_.version);
      break;
    case RouteId::web:
      response = web_response(*find_web_asset(exchange.head.path), exchange.head);
      break;
    case RouteId::systemone:
    case RouteId::batch:
    case RouteId::decisions:
    case RouteId::workers:
      CHECK(false, "{} is no GET route", exchange.route->name);
  }
  response.closes = exchange.head.has_body();  // nobody reads it
  return response;
}

std::optional<Failure> Service::read_fields(Exchange& exchange) const {
  const RequestHead& head = exchange.head;
  const std::string* coding = head.field("content-encoding");
  const bool has_several = head.count("content-encoding") > 1;
  if (coding != nullptr && (has_several || !equals_ignoring_case(*coding, "identity"))) {
    exchange.is_gzip = !has_several && equals_ignoring_case(*coding, "gzip");
    if (!exchange.is_gzip) return Failure{.kind = Kind::wrong_encoding, .message = "the body may be gzip or plain"};
    if (exchange.route->id == RouteId::batch) {
      return Failure{.kind = Kind::wrong_encoding, .message = "a batch's body must be plain"};
    }
  }
  if (exchange.route->id == RouteId::batch && head.version == 10) {
    return Failure{.kind = Kind::wrong_version, .message = "a batch is answered in chunks, which HTTP/1.0 lacks"};
  }
  if (head.version == 11 && head.field("expect") != nullptr && !head.expects_continue) {
    return Failure{.kind = Kind::wrong_expectation, .message = "the one expectation met here is 100-continue"};
  }
  if (const std::string* cache_key = head.field(kPrefixCacheField)) {
    if (head.count(kPrefixCacheField) > 1 || !is_cache_key(*cache_key)) {
      return Failure{.kind = Kind::malformed,
                     .message = "X-Clef-Prefix-Cache: expected once, 1 to 64 of the characters A-Z a-z 0-9 . _ -"};
    }
  }
  if (exchange.wire == Wire::workers) exchange.confidence = Confidence::purity;  // the hosted service's
  if (const auto name = query_value(head.query, "confidence")) {
    const auto confidence = confidence_named(*name);
    if (!confidence) {
      return invalid({{{"query", "confidence"}, "expected max, typesafe, purity or entropy", "value_error"}});
    }
    exchange.confidence = *confidence;
  }
  if (const auto logits = query_value(head.query, "logits")) {
    if (*logits != "true" && *logits != "false") {
      return invalid({{{"query", "logits"}, "expected true or false", "value_error"}});
    }
    exchange.wants_logits = *logits == "true";
  }
  return std::nullopt;
}

std::optional<Response> Service::admit_work(Exchange& exchange) {
  if (!backend_ || phase_ == Phase::loading) {
    return refuse(exchange,
                  {.kind = Kind::unavailable, .message = "the model is being loaded", .retry_after = kComeBackSoon});
  }
  if (auto failure = read_fields(exchange)) return refuse(exchange, *failure);
  if (exchange.wire == Wire::workers && !serves(exchange.path_model) && exchange.path_model.rfind("clef", 0) != 0) {
    return refuse(exchange, {.kind = Kind::no_route, .message = "no route for that URI"});
  }
  const auto limit = body_limit(exchange);
  const std::uint64_t length = exchange.head.content_length.value_or(0);
  if (limit && length > *limit) {
    return refuse(exchange, {.kind = Kind::too_large,
                             .message = fmt::format("the body has {} bytes; at most {} are taken", length, *limit)});
  }
  if (const auto wait = exchange.key->take(Exchange::Clock::now())) {
    return refuse(exchange, {.kind = Kind::rate_limited, .message = "this key's rate is used up", .retry_after = wait});
  }
  if (!exchange.key->enter()) {
    return refuse(exchange, {.kind = Kind::rate_limited,
                             .message = fmt::format("this key has {} requests at work, as many as it may",
                                                    exchange.key->in_flight()),
                             .retry_after = std::max(milliseconds(50), time_to_drain())});
  }
  exchange.holds_key = true;
  return std::nullopt;
}

std::optional<std::size_t> Service::body_limit(const Exchange& exchange) const {
  if (exchange.route != nullptr && exchange.route->id == RouteId::batch) return std::nullopt;
  return options_.max_body_bytes;
}

bool Service::serves(const std::string& model) const {
  return options_.any_model || model == options_.model_name ||
         std::find(options_.aliases.begin(), options_.aliases.end(), model) != options_.aliases.end();
}

std::variant<Scheduler::Ticket, Failure> Service::submit(const Exchange& exchange, std::string body, Reply reply,
                                                         std::optional<std::int64_t> index) {
  auto work = std::make_shared<Work>();
  const std::size_t bytes = body.size();
  work->body = std::move(body);
  work->is_gzip = exchange.is_gzip;
  work->max_body_bytes = options_.max_body_bytes;
  work->wire = exchange.wire;
  work->path_model = exchange.path_model;
  work->shape = exchange.wire == Wire::workers ? hosted(options_.shape) : options_.shape;
  if (exchange.wire == Wire::openai) {
    work->shape.max_questions = std::max(work->shape.max_questions, kMaxOpenAiQuestions);
  }
  work->confidence = exchange.confidence;
  work->wants_logits = exchange.wants_logits;
  work->index = index;
  work->serves = [this](const std::string& model) { return serves(model); };  // constants alone: any thread may ask
  work->served = options_.model_name;
  for (const std::string& alias : options_.aliases) work->served += ", " + alias;

  Scheduler::Job job;
  // Without keys clients take turns by their address; '@' stands in no key's id.
  job.key = exchange.key->id().empty() ? "@" + exchange.client : exchange.key->id();
  job.bytes = bytes;
  job.deadline = index ? Exchange::Clock::now() + options_.request_timeout : exchange.deadline;
  job.has_media = [work] {
    read_once(*work);
    return work->has_media;
  };
  job.set_aside = [work] { forget_what_was_read(*work); };
  job.prepare = [work, prepare = backend_->prepare]() -> Result<Engine::Prepared> {
    read_once(*work);
    work->body = {};
    if (work->failure) return Error{Errc::bad_request, work->failure->message};
    return prepare(std::exchange(work->parsed, {}));
  };
  job.done = [work, reply = std::move(reply)](Result<Scheduler::Outcome> result) {
    reply(answer(*work, std::move(result)));
  };
  auto ticket = backend_->scheduler->submit(std::move(job));
  if (ticket) return std::move(ticket).value();
  return failure_of(ticket.error());
}

Response Service::respond(Exchange& exchange, Answered answered) {
  exchange.line.input_tokens = answered.stats.input_tokens;
  exchange.line.questions = answered.stats.questions;
  exchange.line.pass_requests = answered.stats.pass_requests;
  exchange.line.queue_seconds = answered.stats.queue_seconds;
  exchange.line.pass_seconds = answered.stats.pass_seconds;
  if (answered.failure) return refuse(exchange, *answered.failure);
  Response response;
  response.body = std::move(answered.text);
  return response;
}

Response Service::refuse(const Exchange& exchange, const Failure& failure) const {
  if (failure.kind != Kind::queue_full || failure.retry_after) return error_response(failure, exchange.wire);
  Failure timed = failure;
  timed.retry_after = time_to_drain();
  return error_response(timed, exchange.wire);
}

// How long what waits now will take.
milliseconds Service::time_to_drain() const {
  constexpr milliseconds kLeast{100}, kMost{10'000};
  const double speed = tokens_per_second_;
  if (!backend_ || speed <= 0) return kComeBackSoon;
  const double seconds = static_cast<double>(backend_->scheduler->load().waiting_tokens) / speed;
  return std::clamp(milliseconds(static_cast<std::int64_t>(std::min(seconds, 1e6) * 1000)), kLeast, kMost);
}

void Service::decorate(const Exchange& exchange, Response& response) const {
  response.fields.emplace_back("x-typesafe-request-id", exchange.id);
  if (exchange.wire == Wire::workers) response.fields.emplace_back("cf-ai-req-id", exchange.id);
  response.fields.insert(response.fields.end(), exchange.cors.begin(), exchange.cors.end());
}

void Service::close(Exchange& exchange, int status) {
  if (exchange.holds_key) exchange.key->leave();
  exchange.holds_key = false;
  AccessLine& line = exchange.line;
  line.request_id = exchange.id;
  line.remote = exchange.remote;
  line.method = printable(exchange.head.method);
  line.path = printable(exchange.head.path);
  line.key = exchange.key == nullptr ? "" : exchange.key->id();
  line.status = status;
  line.seconds = std::chrono::duration<double>(Exchange::Clock::now() - exchange.started).count();
  if (!access_log_.write(line)) metrics_.count_lost_log_line();
  metrics_.count_request({.route = std::string(exchange.route == nullptr ? "none" : exchange.route->name),
                          .status = status,
                          .key = line.key,
                          .seconds = line.seconds,
                          .input_tokens = line.input_tokens});
  if (status == 499) metrics_.count_client_gone();
}

std::optional<Service::Trouble> Service::trouble() const {
  if (!backend_) return std::nullopt;
  const Scheduler::Load load = backend_->scheduler->load();
  if (load.loss) return Trouble{"lost", load.loss->message};
  if (load.failed_passes_in_a_row >= kFailingPasses) {
    return Trouble{"failing", fmt::format("the device failed the last {} passes", load.failed_passes_in_a_row)};
  }
  const double limit = std::chrono::duration<double>(options_.stall_limit).count();
  if (load.running_seconds > limit) {
    return Trouble{"stalled", fmt::format("a pass has been running for {:.0f} s", load.running_seconds)};
  }
  return std::nullopt;
}

bool Service::is_ready() const { return phase_ == Phase::ready && !trouble(); }

}  // namespace clef::server
