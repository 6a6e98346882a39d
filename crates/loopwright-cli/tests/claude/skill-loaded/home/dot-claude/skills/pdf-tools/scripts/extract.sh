pdftotext "$1" -
