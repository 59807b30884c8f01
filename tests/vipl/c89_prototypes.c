/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All functions of VIPL against prototypes written out a second time, without the typedefs for
 * handlers, as old programs that look the functions up at run time have them. Only compiled.
 */
#include <vipl.h>
#include <vipx.h>

typedef void (*vi_handler)(VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_DESCRIPTOR*);
typedef void (*cq_handler)(VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_BOOLEAN);
typedef void (*error_handler)(VIP_PVOID, VIP_ERROR_DESCRIPTOR*);

typedef void (*host_program)(VIP_UINT32, VIP_PVOID);

typedef struct {
    VIP_RETURN (*OpenNic)(const VIP_CHAR*, VIP_NIC_HANDLE*);
    VIP_RETURN (*CloseNic)(VIP_NIC_HANDLE);
    VIP_RETURN (*QueryNic)(VIP_NIC_HANDLE, VIP_NIC_ATTRIBUTES*);
    VIP_RETURN(*CreateVi)
    (VIP_NIC_HANDLE, VIP_VI_ATTRIBUTES*, VIP_CQ_HANDLE, VIP_CQ_HANDLE, VIP_VI_HANDLE*);
    VIP_RETURN (*DestroyVi)(VIP_VI_HANDLE);
    VIP_RETURN(*QueryVi)
    (VIP_VI_HANDLE, VIP_VI_STATE*, VIP_VI_ATTRIBUTES*, VIP_BOOLEAN*, VIP_BOOLEAN*);
    VIP_RETURN (*SetViAttributes)(VIP_VI_HANDLE, VIP_VI_ATTRIBUTES*);
    VIP_RETURN(*ConnectWait)
    (VIP_NIC_HANDLE, VIP_NET_ADDRESS*, VIP_ULONG, VIP_NET_ADDRESS*, VIP_VI_ATTRIBUTES*,
     VIP_CONN_HANDLE*);
    VIP_RETURN (*ConnectAccept)(VIP_CONN_HANDLE, VIP_VI_HANDLE);
    VIP_RETURN (*ConnectReject)(VIP_CONN_HANDLE);
    VIP_RETURN(*ConnectRequest)
    (VIP_VI_HANDLE, VIP_NET_ADDRESS*, VIP_NET_ADDRESS*, VIP_ULONG, VIP_VI_ATTRIBUTES*);
    VIP_RETURN (*Disconnect)(VIP_VI_HANDLE);
    VIP_RETURN(*ConnectPeerRequest)
    (VIP_VI_HANDLE, VIP_NET_ADDRESS*, VIP_NET_ADDRESS*, VIP_ULONG);
    VIP_RETURN (*ConnectPeerDone)(VIP_VI_HANDLE, VIP_VI_ATTRIBUTES*);
    VIP_RETURN (*ConnectPeerWait)(VIP_VI_HANDLE, VIP_VI_ATTRIBUTES*);
    VIP_RETURN (*CreatePtag)(VIP_NIC_HANDLE, VIP_PROTECTION_HANDLE*);
    VIP_RETURN (*DestroyPtag)(VIP_NIC_HANDLE, VIP_PROTECTION_HANDLE);
    VIP_RETURN(*RegisterMem)
    (VIP_NIC_HANDLE, VIP_PVOID, VIP_ULONG, VIP_MEM_ATTRIBUTES*, VIP_MEM_HANDLE*);
    VIP_RETURN (*DeregisterMem)(VIP_NIC_HANDLE, VIP_PVOID, VIP_MEM_HANDLE);
    VIP_RETURN(*SetMemAttributes)
    (VIP_NIC_HANDLE, VIP_PVOID, VIP_MEM_HANDLE, VIP_MEM_ATTRIBUTES*);
    VIP_RETURN (*QueryMem)(VIP_NIC_HANDLE, VIP_PVOID, VIP_MEM_HANDLE, VIP_MEM_ATTRIBUTES*);
    VIP_RETURN (*PostSend)(VIP_VI_HANDLE, VIP_DESCRIPTOR*, VIP_MEM_HANDLE);
    VIP_RETURN (*PostRecv)(VIP_VI_HANDLE, VIP_DESCRIPTOR*, VIP_MEM_HANDLE);
    VIP_RETURN (*SendDone)(VIP_VI_HANDLE, VIP_DESCRIPTOR**);
    VIP_RETURN (*RecvDone)(VIP_VI_HANDLE, VIP_DESCRIPTOR**);
    VIP_RETURN (*SendWait)(VIP_VI_HANDLE, VIP_ULONG, VIP_DESCRIPTOR**);
    VIP_RETURN (*RecvWait)(VIP_VI_HANDLE, VIP_ULONG, VIP_DESCRIPTOR**);
    VIP_RETURN (*SendNotify)(VIP_VI_HANDLE, VIP_PVOID, vi_handler);
    VIP_RETURN (*RecvNotify)(VIP_VI_HANDLE, VIP_PVOID, vi_handler);
    VIP_RETURN (*CreateCQ)(VIP_NIC_HANDLE, VIP_ULONG, VIP_CQ_HANDLE*);
    VIP_RETURN (*DestroyCQ)(VIP_CQ_HANDLE);
    VIP_RETURN (*ResizeCQ)(VIP_CQ_HANDLE, VIP_ULONG);
    VIP_RETURN (*CQDone)(VIP_CQ_HANDLE, VIP_VI_HANDLE*, VIP_BOOLEAN*);
    VIP_RETURN (*CQWait)(VIP_CQ_HANDLE, VIP_ULONG, VIP_VI_HANDLE*, VIP_BOOLEAN*);
    VIP_RETURN (*CQNotify)(VIP_CQ_HANDLE, VIP_PVOID, cq_handler);
    VIP_RETURN (*ErrorCallback)(VIP_NIC_HANDLE, VIP_PVOID, error_handler);
    VIP_RETURN (*QuerySystemManagementInfo)(VIP_NIC_HANDLE, VIP_ULONG, VIP_PVOID);
    VIP_RETURN (*NSInit)(VIP_NIC_HANDLE, VIP_PVOID);
    VIP_RETURN (*NSGetHostByName)(VIP_NIC_HANDLE, VIP_CHAR*, VIP_NET_ADDRESS*, VIP_ULONG);
    VIP_RETURN (*NSGetHostByAddr)(VIP_NIC_HANDLE, VIP_NET_ADDRESS*, VIP_CHAR*, VIP_ULONG*);
    VIP_RETURN (*NSShutdown)(VIP_NIC_HANDLE);
    VIP_RETURN(*AllocMem)
    (VIP_NIC_HANDLE, VIP_ULONG, VIP_MEM_ATTRIBUTES*, VIP_PVOID*, VIP_MEM_HANDLE*);
    VIP_RETURN (*FreeMem)(VIP_NIC_HANDLE, VIP_PVOID, VIP_MEM_HANDLE);
    const VIP_CHAR* (*ErrorText)(void);
    const VIP_CHAR* (*ReturnName)(VIP_RETURN);
    VIP_RETURN (*Simulate)(const VIPX_SIMULATION*, host_program, VIP_PVOID);
    VIP_UINT64 (*Nanoseconds)(void);
    VIP_RETURN (*SetLinkPolicy)(VIP_NIC_HANDLE, VIP_VI_HANDLE, const VIP_CHAR*);
} vipl_functions;

extern const vipl_functions c89_vipl_functions;

const vipl_functions c89_vipl_functions = {VipOpenNic,
                                           VipCloseNic,
                                           VipQueryNic,
                                           VipCreateVi,
                                           VipDestroyVi,
                                           VipQueryVi,
                                           VipSetViAttributes,
                                           VipConnectWait,
                                           VipConnectAccept,
                                           VipConnectReject,
                                           VipConnectRequest,
                                           VipDisconnect,
                                           VipConnectPeerRequest,
                                           VipConnectPeerDone,
                                           VipConnectPeerWait,
                                           VipCreatePtag,
                                           VipDestroyPtag,
                                           VipRegisterMem,
                                           VipDeregisterMem,
                                           VipSetMemAttributes,
                                           VipQueryMem,
                                           VipPostSend,
                                           VipPostRecv,
                                           VipSendDone,
                                           VipRecvDone,
                                           VipSendWait,
                                           VipRecvWait,
                                           VipSendNotify,
                                           VipRecvNotify,
                                           VipCreateCQ,
                                           VipDestroyCQ,
                                           VipResizeCQ,
                                           VipCQDone,
                                           VipCQWait,
                                           VipCQNotify,
                                           VipErrorCallback,
                                           VipQuerySystemManagementInfo,
                                           VipNSInit,
                                           VipNSGetHostByName,
                                           VipNSGetHostByAddr,
                                           VipNSShutdown,
                                           VipxAllocMem,
                                           VipxFreeMem,
                                           VipxErrorText,
                                           VipxReturnName,
                                           VipxSimulate,
                                           VipxNanoseconds,
                                           VipxSetLinkPolicy};
