// SPDX-License-Identifier: BSD-3-Clause
#include "ofi/absent_ops.hpp"

#include "ofi/stubs.hpp"

namespace via::ofi {

fi_ops_msg no_messages = {
    .size = sizeof(fi_ops_msg),
    .recv = not_supported,
    .recvv = not_supported,
    .recvmsg = not_supported,
    .send = not_supported,
    .sendv = not_supported,
    .sendmsg = not_supported,
    .inject = not_supported,
    .senddata = not_supported,
    .injectdata = not_supported,
};

fi_ops_tagged no_tagged = {
    .size = sizeof(fi_ops_tagged),
    .recv = not_supported,
    .recvv = not_supported,
    .recvmsg = not_supported,
    .send = not_supported,
    .sendv = not_supported,
    .sendmsg = not_supported,
    .inject = not_supported,
    .senddata = not_supported,
    .injectdata = not_supported,
};

fi_ops_rma no_rma = {
    .size = sizeof(fi_ops_rma),
    .read = not_supported,
    .readv = not_supported,
    .readmsg = not_supported,
    .write = not_supported,
    .writev = not_supported,
    .writemsg = not_supported,
    .inject = not_supported,
    .writedata = not_supported,
    .injectdata = not_supported,
};

fi_ops_atomic no_atomics = {
    .size = sizeof(fi_ops_atomic),
    .write = not_supported,
    .writev = not_supported,
    .writemsg = not_supported,
    .inject = not_supported,
    .readwrite = not_supported,
    .readwritev = not_supported,
    .readwritemsg = not_supported,
    .compwrite = not_supported,
    .compwritev = not_supported,
    .compwritemsg = not_supported,
    .writevalid = not_supported,
    .readwritevalid = not_supported,
    .compwritevalid = not_supported,
};

}  // namespace via::ofi
