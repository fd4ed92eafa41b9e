// SPDX-License-Identifier: Apache-2.0
// Writes the first inputs of each corpus into the folder given.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/wire/control_samples.h"
#include "transport/wire/control.h"
#include "transport/wire/handshake.h"
#include "transport/wire/header.h"

namespace {

using namespace redsum;

void write(const std::filesystem::path& folder, const std::string& name, ConstBytes bytes) {
  std::filesystem::create_directories(folder);
  std::ofstream file(folder / name, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

void add_frame(std::vector<std::byte>& stream, wire::Header header) {
  header.dtype = DType::uint8;
  wire::seal(header);
  const std::size_t at = stream.size();
  stream.resize(at + wire::kHeaderBytes + header.payload_bytes, std::byte{0x5A});
  std::memcpy(stream.data() + at, &header, sizeof header);
}

// Frames for communicators 0, 1 and 2 (hidden), of sizes around the reader's limits; then `last` and one more.
void write_frames(const std::filesystem::path& folder, const std::string& name, std::uint8_t first,
                  const wire::Header& last) {
  std::vector<std::byte> stream{std::byte{first}};
  std::uint16_t number = 0;
  for (const std::uint32_t payload_bytes : {0u, 1u, 512u, 513u, 700u, 64u}) {
    wire::Header header;
    header.communicator = number % 3;
    header.place = number++ % 4;
    header.payload_bytes = payload_bytes;
    add_frame(stream, header);
  }
  add_frame(stream, last);
  add_frame(stream, {});
  write(folder, name, stream);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::filesystem::path root = argv[1];
  Prng random(1);
  for (const wire::Message& message : wire::samples::one_of_each(random)) {
    const std::string text = wire::encode(message);
    write(root / "control", "message_" + std::to_string(message.index()), std::as_bytes(std::span(text)));
  }
  wire::Hello hello;
  hello.job = "train-1";
  hello.rank = 3;
  hello.incarnation = 0x0123456789ABCDEF;
  hello.nonce[0] = 7;
  write(root / "hello", "lane", wire::encode_hello(hello));
  hello.purpose = wire::Purpose::control_tool;
  hello.job.clear();
  write(root / "hello", "tool", wire::encode_hello(hello));
  std::array<std::byte, wire::kChallengeBytes> refusal{};
  wire::Acceptor::refuse(Status(Code::version_mismatch, "speaks 2.0, not 1.0"), refusal);
  write(root / "hello", "refusal", refusal);

  wire::Header last;
  write_frames(root / "frames", "good", 0, last);
  write_frames(root / "frames", "sealed", 1, last);
  last.payload_bytes = 701;
  write_frames(root / "frames", "too_large", 0, last);
  last.payload_bytes = 10;
  last.communicator = 9;
  write_frames(root / "frames", "unknown_communicator", 0, last);
  last.communicator = 0;
  for (const std::uint32_t chunk : {1u, 2u, 3u}) {  // hides, exposes, stops
    last.chunk = chunk;
    write_frames(root / "frames", "chunk_" + std::to_string(chunk), 1, last);
  }
  return 0;
}
