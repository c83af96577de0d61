// clef-bench: how fast this machine runs the parts and the whole, beside its own peak measured in the same run.
#include <CLI/CLI.hpp>

#include "clef-bench/bench.h"

int main(int argc, char** argv) {
  CLI::App app{
      "Measures speed on this machine, beside its floating point peak measured in the same run.\n\n"
      "  clef-bench linear                          the matrix product\n"
      "  clef-bench forward -m MODEL --tokens 1024  a forward pass, op by op\n"
      "  clef-bench engine -m MODEL --device cuda   whole requests on any device, alone and in batches\n"
      "  clef-bench vision -m MODEL --patches 1024  the vision tower on one image, op by op\n"
      "  clef-bench tokenizer FOLDER FILE           text to ids\n"
      "  clef-bench image FILE                      a picture to patches\n"};
  app.require_subcommand(1);
  app.fallthrough();  // the options of all commands may stand after the command too
  clef::bench::Settings settings;
  app.add_option("--threads", settings.num_threads, "threads; 0: one for each CPU")->check(CLI::NonNegativeNumber);
  app.add_option("--kernels", settings.kernels, "avx512, avx2 or plain; default: the best this machine has");
  app.add_option("--runs", settings.runs, "counted runs, of which the median is shown")->check(CLI::PositiveNumber);

  std::vector<int> rows{256, 512, 1024};
  CLI::App* linear = app.add_subcommand("linear", "the matrix product at the sizes of a 9B model");
  linear->add_option("--rows", rows, "rows (tokens), several allowed");

  std::string model;
  std::vector<int> tokens{1024};
  CLI::App* forward = app.add_subcommand("forward", "a whole forward pass, op by op");
  forward->add_option("-m,--model", model, "snapshot folder or GGUF")->required();
  forward->add_option("--tokens", tokens, "length of the record, several allowed");

  clef::bench::EngineBench bench;
  CLI::App* engine = app.add_subcommand("engine", "whole requests on any device, from ids to decisions");
  engine->add_option("-m,--model", bench.model, "snapshot folder or GGUF")->required();
  engine->add_option("--device", bench.device, "auto, cpu, cuda or cuda:N");
  engine->add_option("--f32-layers", bench.f32_layers, "on a GPU: first layers with f32 activations, or all");
  engine->add_option("--tokens", bench.tokens, "length of each record, several allowed")
      ->check(CLI::Range(64, 1 << 20));
  engine->add_option("--batch", bench.batches, "records in one forward pass, several allowed")
      ->check(CLI::Range(1, 4096));
  engine->add_option("--image", bench.patches, "patches of an image beside 300 tokens, several allowed")
      ->check(CLI::Range(4, 1 << 20));
  engine
      ->add_option("--max-tokens-in-flight", bench.max_tokens_in_flight,
                   "tokens of one pass that memory is planned for; default: of the largest pass asked for")
      ->check(CLI::Range(64, 1 << 24));
  engine
      ->add_option("--rest", bench.rest_ms,
                   "milliseconds of rest before each counted run: how a request is answered that comes alone; without, "
                   "runs follow each other, and a device may be bound by its power or heat")
      ->check(CLI::Range(0, 60'000));
  engine->add_flag(
      "--whole", bench.whole,
      "compute every token in every run; without, the rows of the 36 tokens with which all prompts begin are "
      "kept from the first pass, as they are in the other programs");
  engine->add_flag("!--no-token-table", bench.token_table,
                   "compute what the first layer makes of each token in every run; without, a GPU with room looks it "
                   "up, as in the other programs");
  engine->add_flag("--ops", bench.by_op, "also what each op takes, waiting for each");

  std::vector<int> patches{1024};
  CLI::App* vision = app.add_subcommand("vision", "the vision tower on one image, op by op");
  vision->add_option("-m,--model", model, "snapshot folder or GGUF with a tower")->required();
  vision->add_option("--patches", patches, "patches of the image, a multiple of 4, several allowed");

  std::string folder, file;
  CLI::App* tokenizer = app.add_subcommand("tokenizer", "text to ids on one thread");
  tokenizer->add_option("folder", folder, "folder with tokenizer.json and tokenizer_config.json")->required();
  tokenizer->add_option("file", file, "text to encode")->required();

  std::string picture;
  CLI::App* image = app.add_subcommand("image", "a picture file to the vision tower's patches on one thread");
  image->add_option("file", picture, "PNG, JPEG, WebP, GIF or BMP")->required();

  CLI11_PARSE(app, argc, argv);
  if (*linear) return clef::bench::bench_linear(settings, rows);
  if (*forward) return clef::bench::bench_forward(settings, model, tokens);
  if (*engine) return clef::bench::bench_engine(settings, bench);
  if (*image) return clef::bench::bench_image(settings, picture);
  if (*vision) return clef::bench::bench_vision(settings, model, patches);
  return clef::bench::bench_tokenizer(settings, folder, file);
}
