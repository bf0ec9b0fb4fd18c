# SPDX-License-Identifier: Apache-2.0
"""Cached images in the report of a host: one metric for each image, for ImageCacheWeigher."""

import logging
from dataclasses import replace

from kilonova.compute.able_driver import AbleDriver
from kilonova.compute.virt.abilities import CanCacheImages
from kilonova.errors import DriverError
from kilonova.model.cached_image import image_metric
from kilonova.model.host import NodeReport

LOG = logging.getLogger(__name__)
#: Maximum number of images in a report. If the host has more, the least recently used images are left out.
_MOST = 200


def with_images(report: NodeReport, able: AbleDriver) -> NodeReport:
    """Return ``report`` with the host's cached images added, or unchanged if the images cannot be listed."""
    keeps = able.find(CanCacheImages)
    if keeps is None:
        return report
    try:
        images = keeps.cached_images()
    except DriverError as error:
        LOG.warning("Host %s: its cached images could not be listed: %s", report.host, error.message)
        return report
    newest = sorted((image for image in images if image.image_id), key=lambda image: image.unused_s)[:_MOST]
    found = {image_metric(image.image_id): 1.0 for image in newest}
    return replace(report, metrics={**report.metrics, **found}) if found else report
