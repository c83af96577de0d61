# A draft, not tried yet: URL and digest are those of a release that is still to come.
class Cleffa < Formula
  desc "Engine for Cloudflare's Clef decision models"
  homepage "https://example.org/cleffa"
  url "https://example.org/cleffa-0.1.0.tar.gz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  license "MIT"

  depends_on "boost" => :build
  depends_on "cli11" => :build
  depends_on "cmake" => :build
  depends_on "ninja" => :build
  depends_on "pkg-config" => :build
  depends_on "fmt"
  depends_on "giflib"
  depends_on "jpeg-turbo"
  depends_on "libpng"
  depends_on "openssl@3"
  depends_on "prometheus-cpp"
  depends_on "utf8proc"
  depends_on "webp"

  uses_from_macos "curl"
  uses_from_macos "python" => :build

  def install
    system "cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DCLEF_TESTS=OFF", *std_cmake_args
    system "cmake", "--build", "build"
    system "cmake", "--install", "build"
  end

  test do
    assert_match "kernels", shell_output("#{bin}/clef --version")
    assert_match "\"models\"", shell_output("#{bin}/clef doctor --json --no-measure")
  end
end
