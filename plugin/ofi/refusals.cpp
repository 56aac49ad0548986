// SPDX-License-Identifier: Apache-2.0
#include "plugin/ofi/refusals.hpp"

namespace hawser::ofi {

fi_ops completed(fi_ops ops) {
  ops.size = sizeof ops;
  refuse(ops.close);
  refuse(ops.bind);
  refuse(ops.control);
  refuse(ops.ops_open);
  refuse(ops.tostr);
  refuse(ops.ops_set);
  return ops;
}

fi_ops_cm completed(fi_ops_cm ops) {
  ops.size = sizeof ops;
  refuse(ops.setname);
  refuse(ops.getname);
  refuse(ops.getpeer);
  refuse(ops.connect);
  refuse(ops.listen);
  refuse(ops.accept);
  refuse(ops.reject);
  refuse(ops.shutdown);
  refuse(ops.join);
  return ops;
}

fi_ops_rma& no_rma() {
  static fi_ops_rma ops = [] {
    fi_ops_rma none{};
    none.size = sizeof none;
    refuse(none.read);
    refuse(none.readv);
    refuse(none.readmsg);
    refuse(none.write);
    refuse(none.writev);
    refuse(none.writemsg);
    refuse(none.inject);
    refuse(none.writedata);
    refuse(none.injectdata);
    return none;
  }();
  return ops;
}

fi_ops_atomic& no_atomics() {
  static fi_ops_atomic ops = [] {
    fi_ops_atomic none{};
    none.size = sizeof none;
    refuse(none.write);
    refuse(none.writev);
    refuse(none.writemsg);
    refuse(none.inject);
    refuse(none.readwrite);
    refuse(none.readwritev);
    refuse(none.readwritemsg);
    refuse(none.compwrite);
    refuse(none.compwritev);
    refuse(none.compwritemsg);
    refuse(none.writevalid);
    refuse(none.readwritevalid);
    refuse(none.compwritevalid);
    return none;
  }();
  return ops;
}

}  // namespace hawser::ofi
