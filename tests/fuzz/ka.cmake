# SPDX-License-Identifier: BSD-3-Clause
via_fuzz(NAME agent_request SOURCES agent_request.cpp LIBS via_ka)
via_fuzz(NAME agent_reply SOURCES agent_reply.cpp LIBS via_ka)
via_fuzz(NAME agent_connections SOURCES agent_connections.cpp LIBS via_ka)
