// SPDX-License-Identifier: Apache-2.0
/* docs/example.cpp in C:
 *
 *   example_c serve FILE [NIC ...]   Writes its address to FILE, and answers one question.
 *   example_c ask FILE [NIC ...]     Reads the address, sends 4 MiB, and receives their sum.
 */
#include <hawser/hawser.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kWords = 1 << 20, kChannel = 1, kQuestion = 42, kAnswer = 43, kLooks = 600 };
static const uint64_t kPatience_ns = UINT64_C(600000000000); /* ten minutes */
static const uint64_t kLook_ns = UINT64_C(100000000);

static void fail(const char* what, const char* why) {
  fprintf(stderr, "example_c: %s: %s\n", what, why);
  exit(1);
}

static const char* advice(hawser_status status) {
  if (status == HAWSER_PEER_UNREACHABLE) {
    return "Nobody answers at the address in FILE. Is it that of an earlier server? Between hosts, "
           "name NICs that reach each other, and let all UDP pass.";
  }
  if (hawser_is_peer_failure(status)) return "The other process has gone: start both anew.";
  if (status == HAWSER_INVALID_ARGUMENT) {
    return "FILE holds no address of this version of Hawser: start the server anew.";
  }
  if (status == HAWSER_NO_ROUTE) return "Name NICs of one kind and one IP version at both ends.";
  return "docs/troubleshooting.md may help.";
}

static void check(hawser_status status, const char* what) {
  if (status == HAWSER_OK) return;
  fprintf(stderr, "example_c: %s: %s. %s\n", what, hawser_status_name(status), advice(status));
  exit(1);
}

static hawser_engine* open_engine(const char* const* nics, size_t count) {
  const hawser_engine_config config = {
      .struct_size = sizeof config, .nics = nics, .nic_count = count, .faults = "loss=0.05,seed=1"};
  hawser_engine* engine = NULL;
  char why[1000];
  if (hawser_engine_create(HAWSER_ABI_VERSION, &config, &engine, why, sizeof why) != HAWSER_OK) {
    fail("engine", why);
  }
  return engine;
}

static hawser_endpoint* open_endpoint(hawser_engine* engine) {
  hawser_endpoint* endpoint = NULL;
  char why[1000];
  if (hawser_endpoint_create(engine, NULL, &endpoint, why, sizeof why) != HAWSER_OK) {
    fail("endpoint", why);
  }
  return endpoint;
}

/* Waits for the completion of `operation`. The program needs no other one. */
static hawser_completion await(hawser_endpoint* endpoint, hawser_operation operation,
                               const char* what) {
  hawser_completion completion = {.operation = HAWSER_NO_OPERATION};
  do {
    if (hawser_wait(endpoint, &completion, 1, kPatience_ns) == 0) {
      fail(what, "nothing has come for ten minutes. Is the other side there?");
    }
  } while (completion.operation != operation);
  check(completion.status, what);
  return completion;
}

/* A reader sees the whole address or no file, because a rename takes place at once. */
static void write_address(const hawser_endpoint* endpoint, const char* file) {
  size_t bytes = 0;
  const void* address = hawser_endpoint_address(endpoint, &bytes);
  char part[4096];
  const int length = snprintf(part, sizeof part, "%s.part", file);
  FILE* out = length < (int)sizeof part ? fopen(part, "wb") : NULL;
  size_t written = 0;
  if (out != NULL) {
    written = fwrite(address, 1, bytes, out);
    if (fclose(out) != 0) written = 0;
  }
  if (written != bytes || rename(part, file) != 0) {
    fail(file, "can't write it: name a file in a folder of yours.");
  }
}

/* Waits for the server's file. Nothing is posted, and so hawser_wait just lets the time pass. */
static size_t await_address(hawser_endpoint* endpoint, const char* file, void* address) {
  hawser_completion none;
  int look;
  for (look = 0; look < kLooks; ++look) {
    FILE* in = fopen(file, "rb");
    size_t bytes = 0;
    if (in != NULL) {
      bytes = fread(address, 1, HAWSER_MAX_ADDRESS_BYTES, in);
      fclose(in);
    }
    if (bytes > 0) return bytes;
    hawser_wait(endpoint, &none, 1, kLook_ns);
  }
  fail(file, "not there for a minute: start the server, and name the same file.");
  return 0;
}

static uint64_t sum_of(const uint32_t* words, uint64_t count) {
  uint64_t sum = 0;
  uint64_t i;
  for (i = 0; i < count; ++i) sum += words[i];
  return sum;
}

static unsigned long long statistic(const hawser_endpoint* endpoint, const char* wanted) {
  uint64_t values[128];
  const char* name = NULL;
  size_t i;
  check(hawser_stats(endpoint, values, 128), "statistics");
  for (i = 0; i < 128 && hawser_stat_row(i, &name, NULL); ++i) {
    if (strcmp(name, wanted) == 0) return values[i];
  }
  fail(wanted, "there is no such statistic");
  return 0;
}

static void serve(hawser_engine* engine, const char* file, uint32_t* question) {
  hawser_endpoint* endpoint = open_endpoint(engine);
  hawser_operation operation;
  write_address(endpoint, file);
  printf("waiting for a question; the address is in %s\n", file);
  fflush(stdout);

  const hawser_receive_request receive = {.struct_size = sizeof receive,
                                          .peer = HAWSER_ANY_PEER,
                                          .channel = kChannel,
                                          .tag = kQuestion,
                                          .data = question,
                                          .bytes = kWords * sizeof *question};
  check(hawser_receive(endpoint, &receive, &operation), "receive");
  const hawser_completion asked = await(endpoint, operation, "the question");
  const uint64_t sum = sum_of(question, asked.bytes / sizeof *question);
  const hawser_send_request send = {.struct_size = sizeof send,
                                    .peer = asked.peer,
                                    .channel = kChannel,
                                    .tag = kAnswer,
                                    .data = &sum,
                                    .bytes = sizeof sum};
  check(hawser_send(endpoint, &send, &operation), "send");
  (void)await(endpoint, operation, "the answer");
  printf("%llu bytes received, their sum %llu sent\n", (unsigned long long)asked.bytes,
         (unsigned long long)sum);
  remove(file);
  hawser_endpoint_destroy(endpoint); /* closes it; until then the buffers are in use */
}

static void ask(hawser_engine* engine, const char* file, uint32_t* question) {
  hawser_endpoint* endpoint = open_endpoint(engine);
  unsigned char address[HAWSER_MAX_ADDRESS_BYTES];
  const size_t bytes = await_address(endpoint, file, address);
  hawser_peer server;
  hawser_operation received;
  hawser_operation sent;
  uint64_t answer = 0;
  uint32_t i;
  for (i = 0; i < kWords; ++i) question[i] = i;
  check(hawser_connect(endpoint, address, bytes, &server), "connect");

  const hawser_receive_request receive = {.struct_size = sizeof receive,
                                          .peer = server,
                                          .channel = kChannel,
                                          .tag = kAnswer,
                                          .data = &answer,
                                          .bytes = sizeof answer};
  check(hawser_receive(endpoint, &receive, &received), "receive");
  const hawser_send_request send = {.struct_size = sizeof send,
                                    .peer = server,
                                    .channel = kChannel,
                                    .tag = kQuestion,
                                    .data = question,
                                    .bytes = kWords * sizeof *question};
  check(hawser_send(endpoint, &send, &sent), "send");
  (void)await(endpoint, received, "the answer"); /* it shows that the question has arrived */
  if (answer != sum_of(question, kWords)) {
    fail("the sum is wrong", "have both hosts the same byte order?");
  }
  printf(
      "%llu bytes sent, their sum %llu received; %llu packets lost, %llu fragments "
      "retransmitted\n",
      (unsigned long long)send.bytes, (unsigned long long)answer,
      statistic(endpoint, "packets_lost"), statistic(endpoint, "fragments_retransmitted"));
  hawser_endpoint_destroy(endpoint); /* closes it; until then the buffers are in use */
}

int main(int argc, char** argv) {
  const int serves = argc > 1 && strcmp(argv[1], "serve") == 0;
  const char* const here[] = {"udp:127.0.0.1", "udp:127.0.0.2"};
  const char* const there[] = {"udp:127.0.0.3", "udp:127.0.0.4"};
  if (argc < 3 || (!serves && strcmp(argv[1], "ask") != 0)) {
    fprintf(stderr, "usage: example_c serve|ask FILE [NIC ...]\n");
    return 2;
  }
  hawser_engine* engine = argc > 3 ? open_engine((const char* const*)argv + 3, (size_t)argc - 3)
                                   : open_engine(serves ? here : there, 2);
  uint32_t* question = calloc(kWords, sizeof *question);
  if (question == NULL) fail("question", "no memory is left");
  (serves ? serve : ask)(engine, argv[2], question);
  hawser_engine_destroy(engine);
  free(question);
  return 0;
}
