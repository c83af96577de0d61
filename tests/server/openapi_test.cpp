// The OpenAPI document is true: it has the routes that are served, and answers are as its schemas say.
#include "server/openapi.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "server_fixture.h"
#include "text/json.h"

namespace clef::server {
namespace {

using test::HttpAnswer;

const Json& document() {
  static const Json parsed = parse_json(openapi_document("1.2.3")).value();
  return parsed;
}

// "#/components/schemas/Answer" and the like; other values as they are.
const Json& resolve(const Json& value) {
  const Json* reference = value.find("$ref");
  if (reference == nullptr) return value;
  const Json* found = &document();
  std::string_view path = *reference->if_string();
  path.remove_prefix(2);
  while (!path.empty() && found != nullptr) {
    const std::string_view step = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(path.size(), step.size() + 1));
    found = found->find(step);
  }
  if (found == nullptr) throw std::runtime_error("nothing at " + *reference->if_string());
  return resolve(*found);
}

double number(const Json& value) {
  if (const double* real = value.if_double()) return *real;
  return std::stod(value.if_integer()->digits);
}

bool is_type(const Json& value, const std::string& type) {
  if (type == "array") return value.if_array() != nullptr;
  if (type == "number") return value.if_double() != nullptr || value.if_integer() != nullptr;
  return value.type_name() == type;
}

// What of JSON Schema the document uses. Returns the first thing that is not as the schema says.
std::string violation(const Json& value, const Json& unresolved, const std::string& path) {
  const Json& schema = resolve(unresolved);
  if (const Json* choices = schema.find("oneOf")) {
    const auto fits = std::count_if(choices->if_array()->begin(), choices->if_array()->end(),
                                    [&](const Json& choice) { return violation(value, choice, path).empty(); });
    return fits == 1 ? "" : path + ": fits " + std::to_string(fits) + " of the schemas";
  }
  if (const Json* type = schema.find("type")) {
    const Json::Array types = type->if_array() != nullptr ? *type->if_array() : Json::Array{*type};
    const bool fits =
        std::any_of(types.begin(), types.end(), [&](const Json& one) { return is_type(value, *one.if_string()); });
    if (!fits) return path + ": is " + std::string(value.type_name()) + ", not " + to_compact_json(*type);
  }
  if (const Json* allowed = schema.find("enum")) {
    const auto& list = *allowed->if_array();
    if (std::find(list.begin(), list.end(), value) == list.end()) return path + ": is none of the enum";
  }
  if (const Json* least = schema.find("minimum"); least != nullptr && number(value) < number(*least)) {
    return path + ": is too small";
  }
  if (const Json* most = schema.find("maximum"); most != nullptr && number(value) > number(*most)) {
    return path + ": is too large";
  }
  if (const Json* items = schema.find("items")) {
    for (std::size_t i = 0; i < value.if_array()->size(); ++i) {
      auto found = violation((*value.if_array())[i], *items, path + "[" + std::to_string(i) + "]");
      if (!found.empty()) return found;
    }
  }
  if (value.if_object() == nullptr) return "";
  if (const Json* required = schema.find("required")) {
    for (const Json& name : *required->if_array()) {
      if (value.find(*name.if_string()) == nullptr) return path + ": lacks " + *name.if_string();
    }
  }
  const Json* properties = schema.find("properties");
  const Json* others = schema.find("additionalProperties");
  for (const auto& [name, member] : *value.if_object()) {
    const Json* known = properties == nullptr ? nullptr : properties->find(name);
    if (known == nullptr && others != nullptr && others->if_bool() != nullptr) return path + ": has also " + name;
    const Json* rule = known != nullptr ? known : others;
    if (rule == nullptr) continue;
    auto found = violation(member, *rule, path + "." + name);
    if (!found.empty()) return found;
  }
  return "";
}

// The answer's status is listed at the route, and its body is as the schema there says.
void expect_described(const HttpAnswer& answer, const std::string& path, const std::string& method) {
  SCOPED_TRACE(method + " " + path + " " + std::to_string(answer.status) + " " + answer.body);
  const Json* response =
      document().find("paths")->find(path)->find(method)->find("responses")->find(std::to_string(answer.status));
  ASSERT_NE(response, nullptr);
  const Json& described = resolve(*response);
  for (const auto& [name, header] : *described.find("headers")->if_object()) {
    if (name.rfind("etry", 1) == 1) continue;  // not with every 429 and 503
    std::string lower = name;
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](char c) { return static_cast<char>(std::tolower(c)); });
    EXPECT_NE(answer.field(lower), "") << name;
  }
  const Json* schema = described.find("content")->find(answer.field("content-type"));
  ASSERT_NE(schema, nullptr) << answer.field("content-type");
  if (answer.field("content-type") != "application/json") return;
  const auto body = parse_json(answer.body);
  ASSERT_TRUE(body);
  EXPECT_EQ(violation(*body, *schema->find("schema"), "body"), "");
}

TEST(OpenApi, HasTheRoutesThatAreServed) {
  std::set<std::string> served, described;
  for (const Route& route : routes()) {
    std::string method(route.method);
    std::transform(method.begin(), method.end(), method.begin(),
                   [](char c) { return static_cast<char>(std::tolower(c)); });
    served.insert(method + " " + std::string(route.path));
    const Json* operation = document().find("paths")->find(route.path)->find(method);
    ASSERT_NE(operation, nullptr) << route.path;
    EXPECT_EQ(operation->find("security") != nullptr, route.needs_key) << route.path;
  }
  for (const auto& [path, methods] : *document().find("paths")->if_object()) {
    for (const auto& [method, operation] : *methods.if_object()) described.insert(method + " " + path);
  }
  EXPECT_EQ(served, described);
}

TEST(OpenApi, ResolvesEveryReference) {
  const std::function<void(const Json&)> walk = [&](const Json& value) {
    EXPECT_NO_THROW(resolve(value));
    if (const auto* list = value.if_array()) std::for_each(list->begin(), list->end(), walk);
    if (const auto* object = value.if_object()) {
      for (const auto& [name, member] : *object) walk(member);
    }
  };
  walk(document());
}

TEST(OpenApi, IsServedAsItIs) {
  TestServer server;
  EXPECT_EQ(server.get("/openapi.json").body, openapi_document("1.2.3"));
  EXPECT_EQ(*document().find("info")->find("version")->if_string(), "1.2.3");
}

const std::string kAll = R"({"model":"clef","state":{"a":[1,null]},"questions":{
  "n":{"type":"noul","criteria":{"true":"yes"}},
  "c":{"type":"choice","instructions":["which"],"criteria":{"x":null,"y":{"z":1}}},
  "s":{"type":"score","instructions":"how","criteria":["low",{"a":1},null]}}})";

TEST(OpenApi, DescribesRequestsThatAreTaken) {
  const Json& request = *document().find("components")->find("schemas")->find("Request");
  EXPECT_EQ(violation(parse_json(kAll).value(), request, "body"), "");
  EXPECT_NE(violation(parse_json(R"({"model":"clef","state":1})").value(), request, "body"), "");
}

TEST(OpenApi, DescribesAnswers) {
  TestServer server;
  for (const char* path : {"/v1/models", "/health", "/ready", "/version", "/openapi.json", "/metrics"}) {
    expect_described(server.get(path), path, "get");
  }
  for (const char* query : {"", "?logits=true", "?confidence=entropy"}) {
    expect_described(server.post(std::string("/v1/systemone") + query, kAll), "/v1/systemone", "post");
  }
  const std::string workers = "/client/v4/accounts/{account}/ai/run/@cf/cloudflare/{model}";
  const std::string workers_path = "/client/v4/accounts/a/ai/run/@cf/cloudflare/clef";
  expect_described(server.post(workers_path, R"({"state":1,"questions":{"a":{"type":"noul","instructions":"i"}}})"),
                   workers, "post");
  for (const char* body : {"{", "{}", R"({"state":1,"questions":{"a":{"type":"noul"}}})"}) {
    expect_described(server.post(workers_path, body), workers, "post");
  }
  expect_described(server.post("/v1/decisions", R"({"model":"clef","input":"x","questions":[{"type":"predicate"},
    {"type":"choice","choices":[{"value":"a"},{"value":true}]},
    {"type":"score","name":"s","levels":[{"label":"a"},{"label":"b"}]}]})"),
                   "/v1/decisions", "post");
  expect_described(server.post("/v1/decisions", "{}"), "/v1/decisions", "post");
  for (const char* body : {"{", "{}", R"({"model":"x","state":1,"questions":{"a":{"type":"noul"}}})"}) {
    expect_described(server.post("/v1/systemone", body), "/v1/systemone", "post");
  }
  expect_described(server.post("/v1/systemone", kAsk, {"Origin: http://x"}), "/v1/systemone", "post");
  expect_described(server.post("/v1/systemone", kAsk, {"Content-Encoding: br"}), "/v1/systemone", "post");
  expect_described(server.post("/v1/systemone", kAsk, {"Expect: x"}), "/v1/systemone", "post");
  expect_described(server.post("/v1/systemone/batch", kAsk + "\n"), "/v1/systemone/batch", "post");
  const HttpAnswer batch = server.post("/v1/systemone/batch", kAll.substr(0, 5) + "\n");
  const Json& line = *document().find("components")->find("schemas")->find("BatchLine");
  EXPECT_EQ(violation(parse_json(batch.body).value(), line, "line"), "");

  FixtureOptions options = fixture_options();
  options.keys = "a secret-key rate=1 burst=1\n";
  TestServer locked(options);
  expect_described(locked.get("/v1/models"), "/v1/models", "get");
  expect_described(locked.post("/v1/systemone", kAsk), "/v1/systemone", "post");
  expect_described(locked.post("/v1/decisions", kAsk), "/v1/decisions", "post");
  expect_described(locked.post(workers_path, kAsk), workers, "post");
  const std::vector<std::string> key = {"Authorization: Bearer secret-key"};
  locked.post("/v1/systemone", kAsk, key);
  const HttpAnswer limited = locked.post("/v1/systemone", kAsk, key);
  EXPECT_EQ(limited.status, 429);
  expect_described(limited, "/v1/systemone", "post");

  options = fixture_options();
  options.starts = false;
  TestServer loading(options);
  expect_described(loading.get("/ready"), "/ready", "get");
  expect_described(loading.get("/health"), "/health", "get");
  expect_described(loading.post("/v1/systemone", kAsk), "/v1/systemone", "post");
  expect_described(loading.post(workers_path, kAsk), workers, "post");

  options = fixture_options();
  options.run = [](std::span<const EncodedRecord* const> records) {
    return std::vector<Result<Decisions>>(records.size(), Error{Errc::non_finite, "NaN"});
  };
  TestServer failing(options);
  expect_described(failing.post("/v1/systemone", kAsk), "/v1/systemone", "post");
  expect_described(failing.post(workers_path, R"({"state":1,"questions":{"a":{"type":"noul","instructions":"i"}}})"),
                   workers, "post");
}

}  // namespace
}  // namespace clef::server
