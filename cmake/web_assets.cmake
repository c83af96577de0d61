# Writes a C++ file that holds web/, compressed:
#   cmake -D SOURCE=web -D OUTPUT=web_assets_data.cpp -D WORK=FOLDER -P web_assets.cmake
# The page's "assets/" becomes "assets/DIGEST/", with the digest of all files, so that those may be cached for ever.

file(GLOB names RELATIVE ${SOURCE}/assets ${SOURCE}/assets/*)
list(SORT names)
file(SHA256 ${SOURCE}/index.html digests)
foreach(name IN LISTS names)
  file(SHA256 ${SOURCE}/assets/${name} digest)
  string(APPEND digests " ${name} ${digest}")
endforeach()
string(SHA256 bundle "${digests}")
string(SUBSTRING ${bundle} 0 16 bundle)

set(arrays "")
set(table "")
set(index 0)

# Appends the file as one asset.
function(embed file path type)
  set(compressed ${WORK}/asset.gz)
  file(ARCHIVE_CREATE OUTPUT ${compressed} PATHS ${file} FORMAT raw COMPRESSION GZip COMPRESSION_LEVEL 9)
  file(READ ${compressed} bytes HEX)
  # The time in the head of a gzip file (bytes 4 to 7) would make each build another.
  string(SUBSTRING "${bytes}" 0 8 magic)
  string(SUBSTRING "${bytes}" 16 -1 rest)
  string(REGEX REPLACE "(................................)" "\\1\n" lines "${magic}00000000${rest}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${lines}")
  file(SHA256 ${file} digest)
  string(APPEND arrays "constexpr unsigned char kBytes${index}[] = {\n    ${bytes}};\n")
  string(APPEND table "    {\"${path}\", \"${type}\", \"${digest}\",\n     kBytes${index}},\n")
  math(EXPR index "${index} + 1")
  set(arrays "${arrays}" PARENT_SCOPE)
  set(table "${table}" PARENT_SCOPE)
  set(index ${index} PARENT_SCOPE)
endfunction()

file(READ ${SOURCE}/index.html page)
string(REPLACE "\"assets/" "\"assets/${bundle}/" page "${page}")
file(WRITE ${WORK}/index.html "${page}")
embed(${WORK}/index.html / "text/html; charset=utf-8")

foreach(name IN LISTS names)
  if(name MATCHES "\\.js$")
    set(type "text/javascript; charset=utf-8")
  elseif(name MATCHES "\\.css$")
    set(type "text/css; charset=utf-8")
  elseif(name MATCHES "\\.svg$")
    set(type "image/svg+xml")
  else()
    message(FATAL_ERROR "web/assets/${name}: no media type is known for it")
  endif()
  embed(${SOURCE}/assets/${name} /assets/${bundle}/${name} "${type}")
endforeach()

file(WRITE ${OUTPUT} "// Made from web/ by cmake/web_assets.cmake.
#include \"server/web_assets.h\"

namespace clef::server {
namespace {

${arrays}
constexpr WebAsset kAssets[] = {
${table}};

}  // namespace

std::span<const WebAsset> web_assets() { return kAssets; }

}  // namespace clef::server
")
