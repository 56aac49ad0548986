// SPDX-License-Identifier: Apache-2.0
/* docs/example.cpp in C: two endpoints, two NICs each, one packet in twenty lost on the way; a
 * message there, found by a claim before it is received, and its answer back. */
#include <hawser/hawser.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kWords = 1 << 20, kChannel = 1, kQuestion = 42, kAnswer = 43 };
static const uint64_t kPatience = UINT64_C(20000000000); /* ns */

static void check(hawser_status status, const char* what) {
  if (status == HAWSER_OK) return;
  fprintf(stderr, "%s: %s\n", what, hawser_status_name(status));
  exit(1);
}

static hawser_engine* make_engine(const char* first, const char* second) {
  const char* nics[2];
  const hawser_tunable tunables[] = {{"close_timeout_ms", 200}};
  hawser_engine_config config;
  hawser_engine* engine = NULL;
  char error[200] = "";
  memset(&config, 0, sizeof config);
  config.struct_size = sizeof config;
  nics[0] = first;
  nics[1] = second;
  config.nics = nics;
  config.nic_count = 2;
  config.tunables = tunables;
  config.tunable_count = 1;
  config.threads = 1;
  config.faults = "loss=0.05,seed=1";
  if (hawser_engine_create(HAWSER_ABI_VERSION, &config, &engine, error, sizeof error) !=
      HAWSER_OK) {
    fprintf(stderr, "%s\n", error);
    exit(1);
  }
  return engine;
}

static hawser_endpoint* make_endpoint(hawser_engine* engine) {
  hawser_endpoint* endpoint = NULL;
  char error[200] = "";
  if (hawser_endpoint_create(engine, NULL, &endpoint, error, sizeof error) != HAWSER_OK) {
    fprintf(stderr, "%s\n", error);
    exit(1);
  }
  return endpoint;
}

/* Waits for the next completion of a receive; those of sends are of no further interest here. */
static hawser_completion await_receive(hawser_endpoint* endpoint) {
  hawser_completion completion;
  while (hawser_wait(endpoint, &completion, 1, kPatience) == 1) {
    check(completion.status, "an operation");
    if (completion.kind == HAWSER_RECEIVE) return completion;
  }
  fprintf(stderr, "nothing came\n");
  exit(1);
}

static void send_to(hawser_endpoint* endpoint, hawser_peer peer, uint64_t tag, const void* data,
                    uint64_t bytes) {
  const hawser_send_request request = {.struct_size = sizeof request,
                                       .peer = peer,
                                       .channel = kChannel,
                                       .tag = tag,
                                       .data = data,
                                       .bytes = bytes};
  hawser_operation operation;
  check(hawser_send(endpoint, &request, &operation), "send");
}

static uint64_t statistic(const hawser_endpoint* endpoint, const char* wanted) {
  uint64_t values[128];
  const char* name = NULL;
  size_t i;
  check(hawser_stats(endpoint, values, 128), "statistics");
  for (i = 0; i < 128 && hawser_stat_row(i, &name, NULL); ++i) {
    if (strcmp(name, wanted) == 0) return values[i];
  }
  fprintf(stderr, "there is no statistic %s\n", wanted);
  exit(1);
}

int main(void) {
  hawser_engine* left_engine = make_engine("udp:127.0.0.1", "udp:127.0.0.2");
  hawser_engine* right_engine = make_engine("udp:127.0.0.3", "udp:127.0.0.4");
  hawser_endpoint* left = make_endpoint(left_engine);
  hawser_endpoint* right = make_endpoint(right_engine);
  uint32_t* question = malloc(kWords * sizeof *question);
  uint32_t* heard = NULL;
  uint64_t answer = 0;
  uint64_t sum = 0;
  size_t bytes = 0;
  size_t i;
  const void* address = hawser_endpoint_address(right, &bytes);
  hawser_peer peer;
  hawser_operation operation;
  hawser_message message;
  hawser_envelope envelope;
  hawser_completion completion;
  hawser_status status;
  if (question == NULL) return 1;
  check(hawser_connect(left, address, bytes, &peer), "connect");

  /* From here to their completions the buffers are the engine's. */
  for (i = 0; i < kWords; ++i) question[i] = (uint32_t)i;
  const hawser_receive_request receive = {.struct_size = sizeof receive,
                                          .peer = peer,
                                          .channel = kChannel,
                                          .tag = kAnswer,
                                          .data = &answer,
                                          .bytes = sizeof answer};
  check(hawser_receive(left, &receive, &operation), "receive");
  send_to(left, peer, kQuestion, question, kWords * sizeof *question);

  /* The envelope tells how much room is needed; no other receive can take the message now. */
  const hawser_probe_request wanted = {
      .struct_size = sizeof wanted, .peer = HAWSER_ANY_PEER, .channel = kChannel, .tag = kQuestion};
  do {
    status = hawser_claim(right, &wanted, &envelope, &message);
  } while (status == HAWSER_AGAIN);
  check(status, "claim");
  heard = malloc(envelope.bytes);
  if (heard == NULL) return 1;
  const hawser_claimed_request claimed = {
      .struct_size = sizeof claimed, .data = heard, .bytes = envelope.bytes};
  check(hawser_receive_claimed(right, message, &claimed, &operation),
        "receive of the claimed message");
  completion = await_receive(right);
  for (i = 0; i < kWords; ++i) sum += heard[i];
  send_to(right, completion.peer, kAnswer, &sum, sizeof sum);
  (void)await_receive(left);

  printf("%llu bytes there, the sum %llu back; %llu packets lost and sent again\n",
         (unsigned long long)completion.bytes, (unsigned long long)answer,
         (unsigned long long)statistic(left, "fragments_retransmitted"));
  i = memcmp(question, heard, kWords * sizeof *question) == 0 && answer == sum;
  hawser_endpoint_destroy(left);
  hawser_endpoint_destroy(right);
  hawser_engine_destroy(left_engine);
  hawser_engine_destroy(right_engine);
  free(question);
  free(heard);
  return i ? 0 : 1;
}
