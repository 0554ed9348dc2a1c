#include "data/reports/run/event_file.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <string_view>

#include "data/bytes/zip/crc32.h"

namespace wide {
namespace {

static_assert(std::endian::native == std::endian::little);

template <class T>
std::string bytes_of(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

/// The encoded fields of a protobuf message.
class EventFields {
 public:
  EventFields& number(int field, uint64_t value) {
    varint(static_cast<uint64_t>(field) << 3);
    varint(value);
    return *this;
  }
  EventFields& real(int field, double value) {
    varint(static_cast<uint64_t>(field) << 3 | 1);
    bytes += bytes_of(value);
    return *this;
  }
  EventFields& real32(int field, float value) {
    varint(static_cast<uint64_t>(field) << 3 | 5);
    bytes += bytes_of(value);
    return *this;
  }
  EventFields& text(int field, std::string_view value) {
    varint(static_cast<uint64_t>(field) << 3 | 2);
    varint(value.size());
    bytes += value;
    return *this;
  }
  EventFields& message(int field, const EventFields& value) { return text(field, value.bytes); }

  std::string bytes;

 private:
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
    bytes += static_cast<char>(value);
  }
};

/// The CRC in TFRecord's masked form, which differs from a plain CRC that the data may contain.
std::string masked_checksum(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return bytes_of(static_cast<uint32_t>(((crc >> 15) | (crc << 17)) + 0xa282ead8u));
}

std::string record(const EventFields& event) {
  const std::string length = bytes_of(static_cast<uint64_t>(event.bytes.size()));
  return length + masked_checksum(length) + event.bytes + masked_checksum(event.bytes);
}

/// Event { wall_time = 1, step = 2, file_version = 3, summary = 5 }
EventFields event(double wall_s, int64_t step) {
  EventFields fields;
  return fields.real(1, wall_s).number(2, static_cast<uint64_t>(step));
}

/// An entry of SessionStartInfo.hparams: map<string, google.protobuf.Value>.
EventFields entry(const std::string& key, const EventFields& value) {
  return EventFields().text(1, key).message(2, value);
}

}  // namespace

std::string event_folder(const std::string& log, uint64_t model) {
  return fmt::format("{}model-{:04d}", log, model);
}

std::string event_file(const std::string& log, uint64_t model) {
  return event_folder(log, model) + "/" + kEventFile;
}

std::string event_file_head(double wall_s) {
  return record(event(wall_s, 0).text(3, "brain.Event:2"));
}

std::string event_scalars(double wall_s, int64_t step,
                          const std::map<std::string, double>& values) {
  EventFields summary;  // Summary { value = 1 { tag = 1, simple_value = 2 } }
  for (const auto& [name, value] : values)
    summary.message(1, EventFields().text(1, name).real32(2, static_cast<float>(value)));
  return record(event(wall_s, step).message(5, summary));
}

std::string event_hyperparameters(double wall_s, const std::map<std::string, double>& numbers,
                                  const std::map<std::string, std::string>& texts) {
  EventFields session;  // SessionStartInfo { hparams = 1, start_time_secs = 5 }
  for (const auto& [key, value] : numbers)
    session.message(1, entry(key, EventFields().real(2, value)));
  for (const auto& [key, value] : texts)
    session.message(1, entry(key, EventFields().text(3, value)));
  session.real(5, wall_s);
  // Summary.Value { tag = 1, tensor = 8 { dtype = 1, tensor_shape = 2 },
  //                 metadata = 9 { plugin_data = 1 { plugin_name = 1, content = 2 } } },
  // content: HParamsPluginData { session_start_info = 3 }. The tensor is empty, as readers expect
  // one in every value.
  const EventFields plugin =
      EventFields().text(1, "hparams").message(2, EventFields().message(3, session));
  const EventFields value = EventFields()
                                .text(1, "_hparams_/session_start_info")
                                .message(8, EventFields().number(1, 1).message(2, EventFields()))
                                .message(9, EventFields().message(1, plugin));
  return record(event(wall_s, 0).message(5, EventFields().message(1, value)));
}

}  // namespace wide
