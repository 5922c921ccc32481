"""One file per format a user may bring; `iotrace.capture.importing` picks among them by content."""
