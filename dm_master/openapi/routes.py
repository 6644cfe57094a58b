"""The routes of the API: the function for each operation of the contract."""

from __future__ import annotations

from collections.abc import Mapping

from dm_master.openapi.application import BASE, Application, OperationHandler, guard_response
from dm_master.openapi.cluster_operations import ClusterOperations
from dm_master.openapi.contract import contract
from dm_master.openapi.leader import Leader
from dm_master.openapi.source_operations import SourceOperations
from dm_master.openapi.structure_operations import StructureOperations
from dm_master.openapi.task_operations import TaskOperations
from dm_master.openapi.template_operations import TemplateOperations
from dm_master.service.dispatcher import MasterCall
from pkg.rpc.server import HttpRoutes


def mount_openapi(routes: HttpRoutes, call: MasterCall) -> None:
    """Serves the API below ``/api/v1``."""
    application = Application(contract(), _handlers(Leader(call)))
    routes.mount(BASE, application, refuse=guard_response, bare_posts=True)


def _handlers(leader: Leader) -> Mapping[str, OperationHandler]:
    sources, tasks, templates = SourceOperations(leader), TaskOperations(leader), TemplateOperations(leader)
    structures, cluster = StructureOperations(leader), ClusterOperations(leader)
    return {
        "DMAPICreateSource": sources.create,
        "DMAPIGetSourceList": sources.show_all,
        "DMAPIGetSource": sources.get,
        "DMAPIDeleteSource": sources.delete,
        "DMAPIUpdateSource": sources.update,
        "DMAPIGetSourceStatus": sources.status,
        "DMAPIEnableSource": sources.enable,
        "DMAPIDisableSource": sources.disable,
        "DMAPITransferSource": sources.transfer,
        "DMAPIEnableRelay": sources.enable_relay,
        "DMAPIDisableRelay": sources.disable_relay,
        "DMAPIPurgeRelay": sources.purge_relay,
        "DMAPIGetSourceSchemaList": sources.list_schemas,
        "DMAPIGetSourceTableList": sources.list_tables,
        "DMAPICreateTask": tasks.create,
        "DMAPIGetTaskList": tasks.show_all,
        "DMAPIGetTask": tasks.get,
        "DMAPIDeleteTask": tasks.delete,
        "DMAPIUpdateTask": tasks.update,
        "DMAPIGetTaskStatus": tasks.status,
        "DMAPIStartTask": tasks.start,
        "DMAPIStopTask": tasks.stop,
        "DMAPIGetTaskMigrateTargets": tasks.migrate_targets,
        "DMAPIGetSchemaListByTaskAndSource": structures.list_schemas,
        "DMAPIGetTableListByTaskAndSource": structures.list_tables,
        "DMAPIGetTableStructure": structures.get,
        "DMAPIOperateTableStructure": structures.put,
        "DMAPIDeleteTableStructure": structures.delete,
        "DMAPIConvertTask": tasks.convert,
        "DMAPICreateTaskTemplate": templates.create,
        "DMAPIGetTaskTemplateList": templates.show_all,
        "DMAPIImportTaskTemplate": templates.import_all,
        "DMAPIGetTaskTemplate": templates.get,
        "DMAPUpdateTaskTemplate": templates.update,
        "DMAPIDeleteTaskTemplate": templates.delete,
        "DMAPIGetClusterInfo": cluster.get_info,
        "DMAPIUpdateClusterInfo": cluster.update_info,
        "DMAPIGetClusterMasterList": cluster.list_masters,
        "DMAPIOfflineMasterNode": cluster.offline_master,
        "DMAPIGetClusterWorkerList": cluster.list_workers,
        "DMAPIOfflineWorkerNode": cluster.offline_worker,
    }
