# SPDX-License-Identifier: BSD-3-Clause
via_fuzz(NAME agent_request SOURCES agent_request.cpp LIBS via_ka)
via_fuzz(NAME agent_reply SOURCES agent_reply.cpp LIBS via_ka)
via_fuzz(NAME agent_connections SOURCES agent_connections.cpp LIBS via_ka)
via_fuzz(NAME setup_message_fuzz SOURCES setup_message_fuzz.cpp LIBS via_ka)
via_fuzz(NAME remote_setup_fuzz
         SOURCES remote_setup_fuzz.cpp ${PROJECT_SOURCE_DIR}/tests/ka/setup_world.cpp
         LIBS via_ka)
